"""The checks of a client's batch before it is appended.

The header is checked against its ranges and the topic's settings, then the checksum, then ``BatchCheck`` checks the
records: a batch that a consumer cannot parse would stop every consumer of the partition. Each error has the code that
Kafka gives for this case, and names the records at fault (KIP-467).
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log.batch_check import BatchCheck
from semel.log.config import LogConfig
from semel.types import INT64_MAX, TopicPartition
from semel.wire.compression import Codec
from semel.wire.crc import crc32c
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    BadRecord,
    BatchHeader,
    TimestampType,
    UnsupportedMagic,
    check_format,
    parse_header,
    patch_codec,
    patch_log_append_time,
    patch_max_timestamp,
    producer_fault,
    read_header,
    verify_crc,
)

# The attributes that a plain batch may have: it is not a control batch, and its timestamps are the producer's.
_PLAIN_ATTRIBUTES: Final = CODEC_MASK | TRANSACTIONAL_BIT


def takes_batches_as_they_are(config: LogConfig) -> bool:
    """Whether batches are stored unchanged under these settings, with no check of single keys or timestamps."""
    return (
        config.compression_type is None
        and not config.compact
        and config.message_timestamp_type is TimestampType.CREATE_TIME
        and config.message_timestamp_before_max_ms == INT64_MAX
    )


def passes_quick_header_check(records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether a quick check of header and checksum accepts the batch. If ``False``, ``admit`` decides.

    Valid only if ``takes_batches_as_they_are(config)``. The records are not checked here.
    """
    size_bytes = header.batch_length + LOG_OVERHEAD
    attributes = header.attributes
    return (
        size_bytes == len(records)
        and size_bytes <= config.max_message_bytes
        and size_bytes <= config.segment_bytes
        and attributes & _PLAIN_ATTRIBUTES == attributes
        and producer_fault(header) is None
        and header.max_timestamp - now_ms <= config.message_timestamp_after_max_ms
        and crc32c(records[ATTRIBUTES_POSITION:]) == header.crc
    )


def admit(
    records: memoryview,
    *,
    config: LogConfig,
    now_ms: int,
    topic_partition: TopicPartition,
    header: BatchHeader | None = None,
    check: BatchCheck | None = None,
) -> tuple[memoryview, BatchHeader]:
    """Check a batch. Returns it as it will be stored (unchanged, unless the topic's settings require a change) and its
    header. Raises ``KafkaError``.

    ``header`` and ``check``: the header and the check of these records, if they were made before. The buffer may be
    patched in place; nothing else is changed.
    """
    header = _whole_batch(records, header, topic_partition)
    if header.size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size_bytes} bytes for {topic_partition}; max.message.bytes is "
            f"{config.max_message_bytes}",
        )
    if header.size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {header.size_bytes} bytes for {topic_partition}; segment.bytes is {config.segment_bytes}",
        )
    _check_shape(header, topic_partition)
    if check is None or not check.answers(config):
        check = BatchCheck(records, config, header)
    check.finish()
    _check_records(check, header, topic_partition)
    if config.compact:
        _check_keys(check, header, topic_partition)
    codec = config.compression_type
    if codec is not None and codec != header.compression:
        records = _recompressed(records, check, codec, config, topic_partition)
        header = parse_header(records)
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        patch_log_append_time(records, 0, now_ms)
        header = parse_header(records)
    else:
        if check.newest is not None and check.newest != header.max_timestamp:
            # Lookups by timestamp and retention go by the header, and sarama leaves this field out of it.
            patch_max_timestamp(records, check.newest)
            header = parse_header(records)
        _check_timestamps(check, header, config, now_ms, topic_partition)
    return records, header


def _whole_batch(records: memoryview, header: BatchHeader | None, topic_partition: TopicPartition) -> BatchHeader:
    try:
        if header is None:
            header = read_header(records)
        else:
            check_format(header)
    except UnsupportedMagic as error:
        raise _invalid(f"{topic_partition}: {error}") from None
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{topic_partition}: {error}") from None
    if header.size_bytes < len(records):
        raise _invalid(
            f"{len(records) - header.size_bytes} bytes follow the batch for {topic_partition}; "
            "a produce request holds exactly one batch per partition"
        )
    if not verify_crc(records, 0, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch for {topic_partition} fails its CRC or is cut off")
    return header


def _check_shape(header: BatchHeader, topic_partition: TopicPartition) -> None:
    fault = producer_fault(header)
    if fault is not None:
        code, text = fault
        raise KafkaError(code, f"the batch for {topic_partition} has {text}")


def _check_records(check: BatchCheck, header: BatchHeader, topic_partition: TopicPartition) -> None:
    fault = check.fault
    if fault is None:
        return
    named = ((fault.index, fault.what),) if isinstance(fault, BadRecord) else ()
    raise KafkaError(
        ErrorCode.INVALID_RECORD,
        f"the batch for {topic_partition} does not hold the {header.record_count} records that it says: {fault}",
        record_errors=named,
    )


def _check_keys(check: BatchCheck, header: BatchHeader, topic_partition: TopicPartition) -> None:
    if not check.keyless_count:
        return
    named = tuple((number, "the record has no key; a compacted topic needs one") for number in check.keyless)
    raise KafkaError(
        ErrorCode.INVALID_RECORD,
        f"{check.keyless_count} of {header.record_count} records of the batch for {topic_partition} have no key, the "
        f"first is record {check.keyless[0]}; a compacted topic needs one",
        record_errors=named,
    )


def _check_timestamps(
    check: BatchCheck, header: BatchHeader, config: LogConfig, now_ms: int, topic_partition: TopicPartition
) -> None:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"the batch for {topic_partition} says that its timestamps are the broker's; message.timestamp.type is "
            "CreateTime",
        )
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} for {topic_partition} is more than message.timestamp.after.max.ms "
            f"({config.message_timestamp_after_max_ms}) after the broker's time {now_ms}",
        )
    before_max_ms = config.message_timestamp_before_max_ms
    if check.oldest is not None and now_ms - check.oldest[0] > before_max_ms:
        oldest, number = check.oldest
        text = (
            f"timestamp {oldest} is more than message.timestamp.before.max.ms ({before_max_ms}) before the broker's "
            f"time {now_ms}"
        )
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"record {number} of the batch for {topic_partition}: {text}",
            record_errors=((number, text),),
        )


def _recompressed(
    records: memoryview, check: BatchCheck, codec: Codec, config: LogConfig, topic_partition: TopicPartition
) -> memoryview:
    if check.codec != codec:
        check = BatchCheck(records, config)  # The topic's codec was changed after the check had begun.
        check.finish()
    size_bytes = HEADER_SIZE + check.recompressed_size
    if check.recompressed is None or size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch for {topic_partition} takes {size_bytes} bytes under its topic's codec, {codec.name}; "
            f"max.message.bytes is {config.max_message_bytes}, and the batches of one request are limited together",
        )
    stored = bytearray(records[:HEADER_SIZE])
    stored += check.recompressed
    patch_codec(stored, codec)
    return memoryview(stored)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
