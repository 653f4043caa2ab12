"""Group commit: all partitions written while the disk was busy share the next sync.

The committer does not decide what is acknowledged. It moves ``durable_offset`` of the partitions that were written:
only forward, and only to an offset that was written before the sync began.

A group is synced in one of two ways:

- through the journal: the new bytes of all its partitions are copied there, and one sync covers them all;
- directly, if at most two files have unsynced bytes, and these are many: copying would cost more than a second sync.
  Then *all* unsynced files of the partition are synced, not only the last one: recovery truncates a log at its first
  hole, so a durable segment after a hole would be lost.

A failed sync is not repeated on the same file: the kernel may have dropped the pages it could not write. If the journal
fails, it is not used again, and the partitions' own files are synced instead. If a partition's own file fails, the
partition goes offline. If the journal has no room, or is over its size limit because checkpoints fail, only this group
is synced without it.

The committer is idle, or busy with one group. Whatever exception is raised while it is busy, by the disk, the worker or
a callback, the group is completed and the next one begins. A group with an unknown outcome fails: its partitions go
offline with the reason.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from semel.log.disk import NO_ROOM, NOT_OPENED, Disk, File
from semel.log.durability.journal import Entry, Journal, Kind
from semel.log.worker import Worker

logger = logging.getLogger(__name__)

DIRECT_FILES_MAX: Final = 2
DIRECT_BYTES_MIN: Final = 128 * 1024  # per partition

NO_ROOM_LINE_INTERVAL_MS: Final = 60_000

# Up to this size, the loop reads a group's bytes for the journal itself, which takes microseconds. A worker would have
# to wait for the interpreter lock after every file that it reads, and would delay the loop each time.
READ_AT_ONCE_BYTES_MAX: Final = 64 * 1024


class Range(NamedTuple):
    """Bytes of one segment file that no sync has covered yet, and the offset of their first batch."""

    file: File
    start: int
    end: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class NewNames:
    """New files and folders of a partition whose names are not durable. The files are synced first, then the folders,
    inner ones before outer ones."""

    files: tuple[str, ...]
    folders: tuple[str, ...]
    version: int

    def sync(self, disk: Disk) -> int:
        """Make the names durable. Returns how many syncs that took."""
        for path in self.files:
            with contextlib.closing(disk.open(path)) as file:
                file.sync()
        for folder in self.folders:
            disk.sync_directory(folder)
        return len(self.files) + len(self.folders)


class Unsynced(NamedTuple):
    """What one partition wrote since the last call of ``take_unsynced``."""

    log: CommittedLog
    end_offset: int
    ranges: tuple[Range, ...]
    own_files: tuple[File, ...]  # all files with bytes that are not synced in the file itself, older ones included
    new_names: NewNames | None  # the names that may not be durable, if there are any


class CommittedLog(Protocol):
    """What the committer needs from a partition's log."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partition(self) -> int: ...

    def take_unsynced(self) -> Unsynced: ...

    def synced(self, end_offset: int) -> None: ...

    def own_files_synced(self, end_offset: int, names: NewNames | None) -> None: ...

    def go_offline(self, reason: str) -> None: ...


@dataclass(slots=True)
class CommitStatistics:
    groups: int = 0
    partitions: int = 0
    syncs: int = 0
    bytes: int = 0
    seconds: float = 0.0
    observe: Callable[[float], None] | None = field(default=None, repr=False)  # called with each group's seconds


class Committer:
    def __init__(
        self,
        *,
        disk: Disk,
        worker: Worker,
        journal: Journal,
        call_soon: Callable[[Callable[[], None]], object],
        monotonic_ms: Callable[[], float],
        journal_is_full: Callable[[], None],
        direct_bytes_min: int = DIRECT_BYTES_MIN,
    ) -> None:
        self._disk = disk
        self._worker = worker
        self._journal: Journal | None = journal
        self._call_soon = call_soon
        self._monotonic_ms = monotonic_ms
        self._journal_is_full = journal_is_full
        self._direct_bytes_min = direct_bytes_min
        self._written: dict[CommittedLog, None] = {}
        self._busy = False
        self._group: Sequence[Unsynced] = ()  # what is being synced
        self._unsettled: list[tuple[set[CommittedLog], Callable[[], None]]] = []
        self._idle: list[Callable[[], None]] = []
        self._said_no_room_ms = -float(NO_ROOM_LINE_INTERVAL_MS)
        self.statistics = CommitStatistics()

    def wrote(self, log: CommittedLog) -> None:
        """Add a log to the next group: it has new bytes that a request waits for."""
        self._written[log] = None
        if not self._busy:
            self._busy = True
            # At the end of this turn of the loop: every request that arrived in it joins the group.
            self._call_soon(self._start)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once nothing waits for a sync."""
        if self._busy:
            self._idle.append(callback)
        else:
            callback()

    def when_settled(self, logs: Iterable[CommittedLog], callback: Callable[[], None]) -> None:
        """Call ``callback`` once no group holds these logs. The caller ensures that nothing is written to them."""
        held = {unsynced.log for unsynced in self._group}.union(self._written).intersection(logs)
        if held:
            self._unsettled.append((held, callback))
        else:
            callback()

    def void(self, offsets: Sequence[tuple[CommittedLog, int]]) -> None:
        """Write to the journal, before truncations, that its entries at or above these offsets must not be replayed.

        May run on another thread. Raises ``OSError``; then the caller calls ``journal_failed`` on the loop.
        """
        journal = self._journal
        if journal is not None and offsets:
            journal.append([Entry(Kind.VOID, log.topic_id, log.partition, offset, b"") for log, offset in offsets])

    def _start(self) -> None:
        written, self._written = self._written, {}
        group = [unsynced for log in written if (unsynced := log.take_unsynced()).ranges]
        if not group:
            self._rest()
            return
        self._group = group
        started_ms = self._monotonic_ms()
        try:
            self._hand_over(group, started_ms)
        except Exception as error:
            self._finished(group, error, started_ms)

    def _hand_over(self, group: list[Unsynced], started_ms: float) -> None:
        size_bytes = sum([part.end - part.start for unsynced in group for part in unsynced.ranges])
        self.statistics.bytes += size_bytes
        journal = self._journal_for(group, size_bytes)
        entries = _read_at_once(group) if journal is not None and size_bytes <= READ_AT_ONCE_BYTES_MAX else None
        self._worker.run(
            lambda: self._make_durable(group, journal, entries),
            lambda outcome: self._finished(group, outcome, started_ms),
            brief=journal is not None and entries is not None and journal.has_room_for(size_bytes, len(entries)),
        )

    def _journal_for(self, group: list[Unsynced], size_bytes: int) -> Journal | None:
        journal = self._journal
        if journal is None or journal.is_at_size_limit:
            return None
        if sum([len(unsynced.own_files) for unsynced in group]) > DIRECT_FILES_MAX:
            return journal
        return journal if size_bytes < self._direct_bytes_min * len(group) else None

    def _make_durable(self, group: list[Unsynced], journal: Journal | None, entries: list[Entry] | None) -> _Outcome:
        """Sync a group, on the worker: only files are touched. ``_finished`` applies the outcome on the loop."""
        outcome = _Outcome()
        if journal is not None:
            try:
                journal.append(_entries(group) if entries is None else entries)
                outcome.syncs += 1
                return outcome
            except OSError as error:
                outcome.journal_error = error
        for unsynced in group:
            try:
                outcome.syncs += self._sync_own_files(unsynced)
                outcome.direct.add(unsynced.log)
            except OSError as error:
                # A file that could not be opened is not a failed sync: its bytes may go to the journal, which is open.
                if error.errno not in NOT_OPENED or journal is not None or not self._copied([unsynced]):
                    outcome.failed[unsynced.log] = error
        return outcome

    def _sync_own_files(self, unsynced: Unsynced) -> int:
        syncs = 0 if unsynced.new_names is None else unsynced.new_names.sync(self._disk)
        for file in unsynced.own_files:
            file.sync()
        return syncs + len(unsynced.own_files)

    def _copied(self, group: list[Unsynced]) -> bool:
        """Write the group to the journal, because its own files could not be opened. Returns whether that succeeded."""
        if self._journal is None or self._journal.is_at_size_limit:
            return False
        try:
            self._journal.append(_entries(group))
        except OSError:
            return False
        return True

    def _finished(self, group: list[Unsynced], outcome: _Outcome | BaseException, started_ms: float) -> None:
        if isinstance(outcome, BaseException):
            logger.error("a group of %d partitions could not be committed", len(group), exc_info=outcome)
            outcome = _Outcome(failed=dict.fromkeys((unsynced.log for unsynced in group), outcome))
        seconds = (self._monotonic_ms() - started_ms) / 1000
        statistics = self.statistics
        statistics.groups += 1
        statistics.partitions += len(group)
        statistics.syncs += outcome.syncs
        statistics.seconds += seconds
        if statistics.observe is not None:
            statistics.observe(seconds)
        if outcome.journal_error is not None:
            self.journal_failed(outcome.journal_error)
        for unsynced in group:
            try:
                self._complete(unsynced, outcome)
            except Exception:
                # A callback of one partition failed. The other partitions are notified, and the next group begins.
                logger.exception("a callback of a committed partition failed")
        if self._journal is not None and self._journal.is_full:
            self._journal_is_full()
        self._group = ()
        if self._unsettled:
            self._tell_settled()
        if self._written:
            self._start()
        else:
            self._rest()

    def _complete(self, unsynced: Unsynced, outcome: _Outcome) -> None:
        if (error := outcome.failed.get(unsynced.log)) is not None:
            unsynced.log.go_offline(f"sync failed: {error}")
            return
        if unsynced.log in outcome.direct:
            unsynced.log.own_files_synced(unsynced.end_offset, unsynced.new_names)
        unsynced.log.synced(unsynced.end_offset)

    def _tell_settled(self) -> None:
        waiting, self._unsettled = self._unsettled, []
        for logs, callback in waiting:
            self.when_settled(logs, callback)

    def _rest(self) -> None:
        self._busy = False
        if self._unsettled:
            self._tell_settled()
        callbacks, self._idle = self._idle, []
        for callback in callbacks:
            callback()

    def journal_failed(self, error: OSError) -> None:
        """Stop using the journal, unless it only had no room."""
        if self._journal is None:
            return
        if error.errno in NO_ROOM:
            now_ms = self._monotonic_ms()
            if now_ms >= self._said_no_room_ms + NO_ROOM_LINE_INTERVAL_MS:
                self._said_no_room_ms = now_ms
                logger.warning("the journal has no room (%s); meanwhile every partition's own file is synced", error)
            return
        logger.error("the journal failed (%s); from now on every partition's own file is synced", error)
        self._journal = None
        # A checkpoint must now sync in the partitions' own files what is so far durable in the journal only.
        self._journal_is_full()


@dataclass(slots=True)
class _Outcome:
    syncs: int = 0
    direct: set[CommittedLog] = field(default_factory=set)  # the logs whose own files were synced
    journal_error: OSError | None = None
    failed: dict[CommittedLog, BaseException] = field(default_factory=dict)


def _read_at_once(group: list[Unsynced]) -> list[Entry] | None:
    try:
        return _entries(group)
    except OSError:
        return None  # The worker meets the same error and handles it.


def _entries(group: list[Unsynced]) -> list[Entry]:
    return [
        Entry(
            Kind.DATA,
            unsynced.log.topic_id,
            unsynced.log.partition,
            part.base_offset,
            part.file.read(part.start, part.end - part.start),
        )
        for unsynced in group
        for part in unsynced.ranges
    ]
