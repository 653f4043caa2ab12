"""What a client's batch must be before it may enter a log.

Everything is read off the batch header; the records are looked at only where a setting of the topic asks for it
(compaction needs keys, another codec needs other bytes, a lower bound on timestamps needs the lowest). Each refusal
carries the error code that Kafka gives for exactly that.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log.config import LogConfig
from semel.types import INT64_MAX, TopicPartition
from semel.wire.compression import Codec
from semel.wire.compression import compress as compress_block
from semel.wire.compression import decompress as decompress_block
from semel.wire.crc import crc32c
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    TimestampType,
    UnsupportedMagic,
    iterate_records,
    parse_header,
    patch_codec,
    patch_log_append_time,
    producer_fault,
    read_header,
    verify_crc,
)

# A record of one byte compressed well is still bounded: what the broker itself unpacks may grow a hundredfold at most.
_EXPANSION_MAX: Final = 100
_EXPANSION_FLOOR_BYTES: Final = 64 * 1024 * 1024

_PLAIN_ATTRIBUTES: Final = CODEC_MASK  # neither transactional nor control, and times are the producer's


def takes_batches_as_they_are(config: LogConfig) -> bool:
    """Whether nothing in these settings asks for a look into the batch, or for a change of it."""
    return (
        config.compression_type is None
        and not config.compact
        and config.message_timestamp_type is TimestampType.CREATE_TIME
        and config.message_timestamp_before_max_ms == INT64_MAX
    )


def is_plainly_good(records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """The quick yes for the usual batch of a topic that ``takes_batches_as_they_are``. A no means: ask ``admit``."""
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
    records: memoryview, *, config: LogConfig, now_ms: int, topic_partition: TopicPartition
) -> tuple[memoryview, BatchHeader]:
    """The batch as it will be stored (the same bytes unless the topic's settings change them) and its header.

    Raises ``KafkaError``. The buffer may be patched in place; nothing else is touched.
    """
    header = _whole_batch(records, topic_partition)
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
    if config.compact:
        _check_keys(records, header, topic_partition)
    codec = config.compression_type
    if codec is not None and codec != header.compression:
        records = _recompressed(records, header, codec, config, topic_partition)
        header = parse_header(records)
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        patch_log_append_time(records, 0, now_ms)
        header = parse_header(records)
    else:
        _check_timestamps(records, header, config, now_ms, topic_partition)
    return records, header


def _whole_batch(records: memoryview, topic_partition: TopicPartition) -> BatchHeader:
    try:
        header = read_header(records)
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


def _check_keys(records: memoryview, header: BatchHeader, topic_partition: TopicPartition) -> None:
    try:
        for record in iterate_records(records, size_max=_unpacked_size_max(header)):
            if record.key is None:
                raise _invalid(
                    f"record {record.offset - header.base_offset} of the batch for {topic_partition} has no key; "
                    "a compacted topic needs one"
                )
    except DecodeError as error:
        raise _invalid(f"{topic_partition}: {error}") from None


def _check_timestamps(
    records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, topic_partition: TopicPartition
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
    if before_max_ms < INT64_MAX:
        try:
            lowest = min(record.timestamp for record in iterate_records(records, size_max=_unpacked_size_max(header)))
        except DecodeError as error:
            raise _invalid(f"{topic_partition}: {error}") from None
        if now_ms - lowest > before_max_ms:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {lowest} for {topic_partition} is more than message.timestamp.before.max.ms "
                f"({before_max_ms}) before the broker's time {now_ms}",
            )


def _recompressed(
    records: memoryview, header: BatchHeader, codec: Codec, config: LogConfig, topic_partition: TopicPartition
) -> memoryview:
    levels = {
        Codec.GZIP: None if config.compression_gzip_level < 0 else config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    try:
        block = decompress_block(header.compression, records[HEADER_SIZE:], size_max=_unpacked_size_max(header))
    except DecodeError as error:
        raise _invalid(f"{topic_partition}: {error}") from None
    stored = bytearray(records[:HEADER_SIZE])
    stored += compress_block(codec, block, level=levels.get(codec))
    patch_codec(stored, codec)
    return memoryview(stored)


def _unpacked_size_max(header: BatchHeader) -> int:
    return max(_EXPANSION_FLOOR_BYTES, header.size_bytes * _EXPANSION_MAX)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
