"""A follower's decisions for one partition: what to fetch, and what to do with the response. Pure.

    position(log) --Fetch--> leader: diverging_epoch(log, asked) --answer--> decide(log, answer, asked=...)
                                                                              |-- Append: check_copied, write, sync
                                                                              |-- TruncateTo, RestartAt: ask again
                                                                              `-- Wait

The law: two logs that have the same last epoch at the same offset are the same below it. It holds because a log has an
epoch only if it has a batch of that epoch, or if its broker was the leader in it. So a follower adds an epoch with the
first batch of it that it copies, not when it learns of the leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from semel.errors import DecodeError, ErrorCode, KafkaError, named
from semel.types import INT32_MAX, Buffer
from semel.wire.records import BatchHeader, iterate_headers, parse_header, verify_crc


class LogView(Protocol):
    """The properties of a log that these decisions use.

    ``end_offset_for_epoch`` returns ``(epoch, end offset)`` of the largest known epoch at or below the one given;
    ``None`` if the given one is newer than all.
    """

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def latest_epoch(self) -> int | None: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None: ...


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """The position of a follower's Fetch. Everything below ``offset`` must be synced here when the Fetch is sent."""

    offset: int
    last_fetched_epoch: int | None
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """A leader's response for one partition. ``diverging_epoch`` is ``(epoch, end offset)``."""

    error_code: int = ErrorCode.NONE
    diverging_epoch: tuple[int, int] | None = None
    high_watermark: int = 0
    log_start_offset: int = 0
    records: Buffer = b""


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records, none or more, after ``check_copied``.

    Then the high watermark is the leader's or the follower's own log end offset, whichever is lower, and the log start
    offset moves up to the leader's. ``restart_at``: first let the log, which is empty, begin at this offset, also for
    ``check_copied``: the leader's log start offset is within a batch, and the whole batch is sent.
    """

    records: Buffer
    high_watermark: int
    log_start_offset: int
    restart_at: int | None = None


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Truncate the log to this offset, remove the epochs that begin there or later, and fetch again.

    The offset may be the log end offset: then only an epoch without a batch is removed. ``loses_committed``: it is
    below the high watermark; only an unclean election can cause that, so it is logged.
    """

    offset: int
    loses_committed: bool = False


@dataclass(frozen=True, slots=True)
class RestartAt:
    """Remove the whole log and let it begin at this offset: the leader has no records before it."""

    offset: int
    loses_committed: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Change nothing. With an error, wait for a newer image or try again later; without one, fetch again at once."""

    error_code: ErrorCode


Action: TypeAlias = Append | TruncateTo | RestartAt | Wait


def position(log: LogView) -> FetchPosition:
    """Return the position from which to fetch."""
    return FetchPosition(log.log_end_offset, log.latest_epoch, log.log_start_offset)


def diverging_epoch(log: LogView, asked: FetchPosition) -> tuple[int, int] | None:
    """Return, on the leader, the last epoch and its end offset up to which a follower's log may be equal to ``log``.

    ``None``: it is the same up to the requested offset. Otherwise the Fetch is no progress of the follower, and its
    response has no records.
    """
    if asked.last_fetched_epoch is None:
        return None
    end = log.end_offset_for_epoch(asked.last_fetched_epoch)
    if end is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"epoch {asked.last_fetched_epoch} is newer than every epoch of the leader's log ({log.latest_epoch})",
        )
    return None if end[0] == asked.last_fetched_epoch and end[1] >= asked.offset else (end[0], end[1])


def decide(log: LogView, answer: PartitionAnswer, *, asked: FetchPosition) -> Action:
    """Return what a follower does with the response to the Fetch of ``asked``.

    If the log has changed since then (it was truncated or appended to), the response changes nothing.
    """
    if (asked.offset, asked.last_fetched_epoch) != (log.log_end_offset, log.latest_epoch):
        return Wait(ErrorCode.NONE)
    if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        is_empty = log.log_start_offset == log.log_end_offset
        if answer.log_start_offset > log.log_end_offset or (is_empty and answer.log_start_offset != log.log_end_offset):
            return RestartAt(answer.log_start_offset, answer.log_start_offset < log.high_watermark)
        return Wait(ErrorCode.OFFSET_OUT_OF_RANGE)
    if answer.error_code:
        return Wait(named(answer.error_code))
    if answer.diverging_epoch is not None:
        return _truncation(log, *answer.diverging_epoch)
    return Append(answer.records, answer.high_watermark, answer.log_start_offset, _restart_at(log, answer.records))


def _truncation(log: LogView, epoch: int, end_offset: int) -> TruncateTo | RestartAt:
    """Return where to truncate, by Kafka's rule.

    If both logs have the epoch, the lower end offset counts. If this log does not have it, everything after this log's
    last epoch before it was never on the leader; everything below is compared by the next Fetch.
    """
    own = log.end_offset_for_epoch(epoch)
    offset = min(end_offset, log.log_end_offset)
    if own is not None:
        own_epoch, own_end = own
        offset = min(own_end, end_offset) if own_epoch == epoch else own_end
    loses_committed = offset < log.high_watermark
    if offset < log.log_start_offset:
        return RestartAt(offset, loses_committed)
    return TruncateTo(offset, loses_committed)


def _restart_at(log: LogView, records: Buffer) -> int | None:
    if not records or log.log_start_offset != log.log_end_offset:
        return None
    try:
        first = parse_header(records)
    except DecodeError:
        return None  # ``check_copied`` will raise the error.
    return first.base_offset if first.base_offset < log.log_end_offset <= first.last_offset else None


class Copied(NamedTuple):
    """Checked batches: ``records`` without an incomplete last batch, and the headers of the batches in order."""

    records: memoryview
    headers: list[BatchHeader]
    next_offset: int
    last_epoch: int | None


def check_copied(records: Buffer, *, next_offset: int, last_epoch: int | None, leader_epoch: int = INT32_MAX) -> Copied:
    """Check what a leader sent before it is written: each batch by its header and CRC, none by its records.

    Offsets must ascend from ``next_offset`` on, with gaps where the leader has compacted. Epochs must not go back, and
    none may be above that of the leader's term, ``leader_epoch``: a batch's epoch is not covered by its CRC. A last
    batch that is cut off is dropped: a response is limited by its bytes. Raises KafkaError (CORRUPT_MESSAGE).
    """
    headers: list[BatchHeader] = []
    size_bytes = 0
    try:
        for start, header in iterate_headers(records, allow_partial_tail=True):
            if not verify_crc(records, start, header):
                raise DecodeError(f"batch at offset {header.base_offset} does not have the CRC {header.crc:#010x}")
            if header.base_offset < next_offset:
                raise DecodeError(f"batch at offset {header.base_offset}; expected {next_offset} or later")
            epoch = header.partition_leader_epoch
            if epoch < (0 if last_epoch is None else last_epoch):
                raise DecodeError(f"batch at offset {header.base_offset} has epoch {epoch} after {last_epoch}")
            if epoch > leader_epoch:
                raise DecodeError(
                    f"batch at offset {header.base_offset} has epoch {epoch}; the leader's is {leader_epoch}"
                )
            headers.append(header)
            size_bytes = start + header.size_bytes
            next_offset, last_epoch = header.next_offset, epoch
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return Copied(memoryview(records)[:size_bytes], headers, next_offset, last_epoch)
