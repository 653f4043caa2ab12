"""Replication of a log: followers fetch a leader's batches and append them unchanged, with offsets and leader epochs.

``append_copied`` is Kafka's appendAsFollower; the replay of the journal uses it, too. ``read_copy`` serves the Fetch of
a follower, and ``verify_copy`` checks what it returned. All three are methods of ``PartitionLog``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log.log_errors import does_not_follow, out_of_range, read_failed, refusal, write_failed
from semel.log.outcomes import ReadResult
from semel.log.segments.reading import read_below
from semel.types import INT32_MAX, INT64_MAX
from semel.wire.control import EndTransactionMarker, parse_marker
from semel.wire.records import BatchHeader, is_walkable, iterate_headers, verify_crc

if TYPE_CHECKING:
    from semel.log.partition_log import PartitionLog

_Copied: TypeAlias = tuple[memoryview, BatchHeader, EndTransactionMarker | None]
"""A batch of another log, its header, and the transaction marker in it."""


def append_copied(log: PartitionLog, batches: memoryview, *, now_ms: int) -> None:
    """Append batches that already have their offsets and leader epochs: from a leader, or from the journal.

    Raises ``KafkaError``: CORRUPT_MESSAGE if a batch does not follow the one before it, and then none is written.
    The CRC is not checked. If all batches fit into the active segment, one write appends them. Otherwise each is
    written by itself; if one of these writes fails, the batches before it stay in the log.
    """
    if log.offline is not None or log.suspended is not None:
        raise refusal(log)
    copied = check_copied(log, batches)
    if not copied:
        return
    end_before = log.log_end_offset
    headers = [header for _, header, _ in copied]
    try:
        takes_all = log.segments.active.takes_all(headers, len(batches), log.config, log.segment_age_max_ms)
    except OSError as error:
        raise read_failed(log, error) from error
    try:
        if takes_all:
            _write_all(log, batches, copied, now_ms)
        else:
            for batch, header, marker in copied:
                log.write_batch(batch, header, now_ms, marker)
    finally:
        if log.log_end_offset > end_before:
            log.wrote()


def check_copied(log: PartitionLog, batches: memoryview) -> list[_Copied]:
    """Check that each batch may follow the one before it. Returns them one by one, with their headers and markers.

    Raises ``KafkaError``. Changes nothing.
    """
    copied: list[_Copied] = []
    log_end_offset, epoch = log.log_end_offset, log.epochs.latest or 0
    try:
        for position, header in iterate_headers(batches):
            if not may_follow(header, log_end_offset) or header.partition_leader_epoch < epoch:
                raise does_not_follow(log.topic_partition, header, log_end_offset, epoch)
            batch = batches[position : position + header.size_bytes]
            # Parsed before the write: a marker that cannot be parsed could not be replayed afterwards.
            marker = parse_marker(batch) if header.is_control and header.producer_id >= 0 else None
            copied.append((batch, header, marker))
            log_end_offset, epoch = header.next_offset, header.partition_leader_epoch
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: {error}") from None
    return copied


def may_follow(header: BatchHeader, log_end_offset: int) -> bool:
    """Whether a log that ends at this offset may continue with the batch.

    A batch that does not move the log end forward would give offsets twice. A batch with an unsound length would make
    the next start fail. An index of a segment covers at most 2**31 - 1 offsets.
    """
    last_offset_delta, base_offset = header.last_offset_delta, header.base_offset
    return (
        0 <= base_offset - log_end_offset <= INT32_MAX - last_offset_delta
        and is_walkable(header)
        and last_offset_delta < INT64_MAX - base_offset
        and header.partition_leader_epoch >= 0
    )


def _write_all(log: PartitionLog, batches: memoryview, copied: Sequence[_Copied], now_ms: int) -> None:
    """Append all these batches to the active segment with one write."""
    segment, interval_bytes = log.segments.active, log.config.index_interval_bytes
    position = segment.size_bytes
    try:
        segment.file.write(position, batches)
    except OSError as error:
        raise write_failed(log, segment, position, error) from error
    log.appended_bytes += len(batches)
    for batch, header, marker in copied:
        segment.appended(header, interval_bytes)
        log.replay(batch, header, now_ms, marker)


def read_copy(log: PartitionLog, offset: int, max_bytes: int) -> ReadResult:
    """Read whole batches from ``offset`` up to the log end, for a follower. Raises OFFSET_OUT_OF_RANGE.

    The first batch is returned even if it is larger than ``max_bytes``. It may begin before ``offset``: a follower
    without records begins at the log start, which DeleteRecords may have put into the middle of a batch.
    """
    if log.offline is not None:
        raise refusal(log)
    end = log.log_end_offset
    if not log.log_start_offset <= offset <= end:
        raise out_of_range(log, offset)
    records = b""
    if offset < end:
        try:
            records, _ = read_below(log.segments, end, offset, max_bytes, at_least_one=True, log_end_offset=end)
            if len(records) == max_bytes:
                records = records[: _whole_batches_end(records)]
        except (OSError, DecodeError) as error:
            raise read_failed(log, error) from error
    return ReadResult(records, log.high_watermark, log.last_stable_offset, log.log_start_offset, None)


def verify_copy(log: PartitionLog, offset: int, max_bytes: int) -> str | None:
    """The damage in the batches that ``read_copy`` returns, as a text; ``None`` if they are sound.

    A leader calls this when a follower fetches the same offset again: it may have refused the batches as damaged.
    """
    try:
        records = read_copy(log, offset, max_bytes).records
        for position, header in iterate_headers(records):
            if not verify_crc(records, position, header):
                return f"{log.folder}: the batch at offset {header.base_offset} fails its checksum"
            epoch = log.epochs.epoch_for(header.base_offset)
            if header.partition_leader_epoch != epoch and header.base_offset >= log.log_start_offset:
                return (
                    f"{log.folder}: the batch at offset {header.base_offset} has epoch "
                    f"{header.partition_leader_epoch}; it was written in {epoch}"
                )
    except KafkaError as error:
        return error.message if error.code is ErrorCode.CORRUPT_MESSAGE else None
    except DecodeError as error:
        return f"{log.folder}: behind offset {offset}: {error}"
    return None


def _whole_batches_end(records: bytes) -> int:
    """The position after the last complete batch."""
    end = 0
    for position, header in iterate_headers(records, allow_partial_tail=True):
        end = position + header.size_bytes
    return end
