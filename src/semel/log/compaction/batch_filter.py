"""The filter of a compaction pass: a batch is kept as it is, kept with fewer records, or dropped.

The filter gets the batches of a log in order, from the first segment to the last of the pass. The laws:

- The returned batch has the same offsets and sequences as the given one, or there is none.
- If all records are kept, the same object is returned, so that the caller sees that nothing changed.
- A marker is dropped only if no record of its transaction came before it. So no record is left without its marker,
  even if the pass ends in between.
- A control batch is recognised by its attribute bit. Its key is never looked up: a user's record may have the same key.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from typing import Final

from semel.errors import DecodeError
from semel.log.compaction.background import Background, at_once, records_of, result_of
from semel.log.compaction.offset_map import OffsetMap
from semel.log.compaction.pace import Pace
from semel.log.compaction.statistics import CleanerStatistics
from semel.log.compaction.transactions import AbortedTransactions, LiveProducers
from semel.types import Buffer
from semel.wire.control import parse_marker
from semel.wire.records import BatchHeader, Codec, Record, TimestampType, build_batch, iterate_records, verify_crc

logger = logging.getLogger(__name__)

# The largest number of records that the caller encodes itself: this takes some 2 ms.
_REBUILT_AT_ONCE_MAX: Final = 1000


class BatchFilter:
    def __init__(
        self,
        offset_map: OffsetMap,
        *,
        covered_to: int,
        aborted: AbortedTransactions,
        live: LiveProducers,
        now_ms: int,
        delete_retention_ms: int,
        pace: Pace,
        statistics: CleanerStatistics,
        background: Background = at_once,
    ) -> None:
        self._background = background
        self._map = offset_map
        self._covered_to = covered_to
        self._aborted = aborted
        self._live = live
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms
        self._pace = pace
        self._statistics = statistics
        # The producers that had records in the batches since their last marker.
        self._with_records: set[int] = set()

    def filtered(
        self, header: BatchHeader, batch: memoryview, *, ends_segment: bool
    ) -> Generator[None, None, Buffer | None]:
        """Return what is left of the batch; ``None`` if nothing.

        ``ends_segment``: whether it is the last batch of the new segment. Such a batch is never dropped, because it
        keeps the segment's end offset.
        """
        if header.base_offset >= self._covered_to:
            return batch
        if not verify_crc(batch, 0, header):
            return self._undecodable(header, batch, "it fails its CRC")
        try:
            if header.is_control:
                return self._marker(header, batch, ends_segment)
            return (yield from self._data(header, batch, ends_segment))
        except DecodeError as error:
            return self._undecodable(header, batch, str(error))

    def _data(self, header: BatchHeader, batch: memoryview, ends_segment: bool) -> Generator[None, None, Buffer | None]:
        if header.is_transactional and header.record_count:
            self._with_records.add(header.producer_id)
        kept: list[Record] = []
        horizon_ms = header.delete_horizon_ms
        if not self._aborted.contains(header):
            for record in (yield from records_of(self._background, batch)):
                if self._pace.spend(1):
                    yield
                if not self._is_latest(record):
                    continue
                if record.value is None:
                    if horizon_ms is None:
                        horizon_ms = self._delete_horizon_ms
                    elif horizon_ms <= self._now_ms:
                        continue
                kept.append(record)
        self._statistics.records_kept += len(kept)
        self._statistics.records_dropped += header.record_count - len(kept)
        unchanged = len(kept) == header.record_count and horizon_ms == header.delete_horizon_ms
        if kept:
            if unchanged:
                return batch
            if len(kept) <= _REBUILT_AT_ONCE_MAX:
                return _rebuilt(header, kept, horizon_ms)
            return (yield from result_of(self._background, lambda: _rebuilt(header, kept, horizon_ms)))
        if not ends_segment and not self._live.must_keep(header):
            return None
        return batch if unchanged else _emptied(header)

    def _is_latest(self, record: Record) -> bool:
        if record.key is None:
            self._statistics.records_without_key += 1
            return False
        latest = self._map.get(record.key)
        return latest is None or latest <= record.offset

    def _marker(self, header: BatchHeader, batch: memoryview, ends_segment: bool) -> Buffer | None:
        if header.record_count and parse_marker(batch) is None:
            return batch  # A control batch of a type that ends no transaction.
        if header.producer_id in self._with_records:
            self._with_records.remove(header.producer_id)
            return batch
        # No record of the transaction is left. A consumer that has read some of them gets time to read the marker.
        if header.record_count and header.delete_horizon_ms is None:
            return _rebuilt(header, list(iterate_records(batch)), self._delete_horizon_ms)
        if header.delete_horizon_ms is not None and self._now_ms < header.delete_horizon_ms:
            return batch
        # Where the marker must stay, it is not emptied: it also holds the latest coordinator epoch.
        return batch if ends_segment or self._live.must_keep(header) else None

    def _undecodable(self, header: BatchHeader, batch: memoryview, reason: str) -> Buffer:
        logger.warning("the batch at offset %d stays as it is: %s", header.base_offset, reason)
        self._statistics.batches_undecodable += 1
        if header.is_transactional and not header.is_control:
            self._with_records.add(header.producer_id)
        return batch


def _rebuilt(header: BatchHeader, records: list[Record], delete_horizon_ms: int | None) -> bytes:
    log_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return _batch(
        header,
        records,
        codec=header.compression,
        delete_horizon_ms=delete_horizon_ms,
        max_timestamp=header.max_timestamp if log_append_time else None,
    )


def _emptied(header: BatchHeader) -> bytes:
    """The batch without its records. The timestamp is kept: a start uses it as the time of the producer's last
    activity."""
    return _batch(header, (), codec=Codec.NONE, delete_horizon_ms=None, max_timestamp=header.max_timestamp)


def _batch(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    codec: Codec,
    delete_horizon_ms: int | None,
    max_timestamp: int | None,
) -> bytes:
    """A batch with the offsets, sequences and attributes of ``header``, and these records."""
    return build_batch(
        records,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        codec=codec,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        delete_horizon_ms=delete_horizon_ms,
        last_offset_delta=header.last_offset_delta,
        max_timestamp=max_timestamp,
    )
