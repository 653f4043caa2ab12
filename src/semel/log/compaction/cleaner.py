"""The log cleaner (Kafka's LogCleaner): chooses the log to compact next, and compacts it in small slices.

    log = cleaner.choose(now_ms)
    for _ in cleaner.clean(log, now_ms):        # each step a few milliseconds; serve requests in between
        ...

The law: between two slices the log is sound and complete. So a pass may end at any of them: by a crash, by ``abort``,
or because the caller asks for no more slices. ``cleaner-offset-checkpoint`` says how far each log is compacted; a
number that is too low costs another pass and loses no record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from semel.clock import Clock
from semel.errors import DecodeError, KafkaError
from semel.log.compaction import background
from semel.log.compaction.cleanable import CleanableRange, cleanable_range, dirtiest, is_due_to_roll
from semel.log.compaction.cleaner_offsets import CleanerOffsets
from semel.log.compaction.cleaning import CleaningPass
from semel.log.compaction.offset_map import OffsetMap
from semel.log.compaction.rewriting import UnsoundSegment
from semel.log.compaction.statistics import CleanerStatistics
from semel.log.disk import Disk
from semel.log.partition_log import PartitionLog
from semel.log.recovery.swap_recovery import remove_unfinished
from semel.log.worker import Worker
from semel.types import INT64_MAX, TopicPartition

logger = logging.getLogger(__name__)

DEDUPE_BUFFER_SIZE_BYTES: Final = 128 * 2**20

# The largest number of segments that are closed at once: to make a file takes the disk up to a few milliseconds.
CLOSED_AT_ONCE_MAX: Final = 4

# The delay after a pass that failed with a disk error, for instance because the disk is full.
RETRY_AFTER_MS: Final = 15 * 60 * 1000


class Logs(Protocol):
    """What the cleaner needs from the log directory."""

    @property
    def path(self) -> str: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]: ...


class LogCleaner:
    """The log cleaner of one data directory.

    ``worker`` does the syncs. Without a worker each sync blocks the caller of a slice for a few milliseconds.
    ``offsets``: how far each log is compacted; without it the file is read here.
    """

    cleaning_pass = CleaningPass

    def __init__(
        self,
        directory: Logs,
        clock: Clock,
        *,
        worker: Worker | None = None,
        offsets: CleanerOffsets | None = None,
        dedupe_buffer_size_bytes: int = DEDUPE_BUFFER_SIZE_BYTES,
    ) -> None:
        if offsets is None:
            offsets = CleanerOffsets(directory.path, directory.disk, directory.logs)
            offsets.load()
        self.statistics = CleanerStatistics()
        self.has_more_to_close = False
        """Whether the last ``choose`` left active segments open that are due to roll."""
        self._directory = directory
        self._clock = clock
        self._background = background.at_once if worker is None else background.on(worker)
        self._map_entries_max = OffsetMap.entries_within(dedupe_buffer_size_bytes)
        self._offsets = offsets
        self._running: dict[PartitionLog, Iterator[None]] = {}
        self._not_before_ms: dict[PartitionLog, int] = {}

    # Deciding

    def choose(self, now_ms: int) -> PartitionLog | None:
        """The log that needs compaction most; ``None`` if none does. Closes a few active segments that are due."""
        self._forget_deleted()
        self.has_more_to_close = False
        closed = 0
        candidates: list[tuple[PartitionLog, CleanableRange]] = []
        for log in self._directory.logs.values():
            if not log.config.compact or log.offline is not None or log.is_truncating or log in self._running:
                continue
            if not self.has_more_to_close and self._roll_if_due(log, now_ms):
                closed += 1
                self.has_more_to_close = closed == CLOSED_AT_ONCE_MAX
            if now_ms < self._not_before_ms.get(log, 0):
                continue
            try:
                found = self.cleanable(log, now_ms)
            except OSError as error:
                logger.error("%s cannot be read, and is not compacted: %s", log.topic_partition, error)
                self._not_before_ms[log] = now_ms + RETRY_AFTER_MS
                continue
            if found is not None:
                candidates.append((log, found))
        return dirtiest(candidates)

    def cleanable(self, log: PartitionLog, now_ms: int) -> CleanableRange | None:
        """The range that a pass over this log would compact, whether or not the log needs compaction."""
        return cleanable_range(log, self.first_dirty_offset(log), now_ms)

    def first_dirty_offset(self, log: PartitionLog) -> int:
        offset = self._offsets.of(log)
        if offset > log.log_end_offset:
            # The log was truncated since. The new value is kept, as the log may grow past the old one.
            offset = log.log_start_offset
            self._offsets.reached(log, offset)
        return max(offset, log.log_start_offset)

    # Doing

    def clean(self, log: PartitionLog, now_ms: int) -> Iterator[None]:
        """One pass over the log, a slice per step. It ends early if the log goes offline or ``abort`` is called."""
        found = self.cleanable(log, now_ms)
        if found is None or log in self._running or log.offline is not None:
            return
        cleaning = self.cleaning_pass(
            log,
            found,
            disk=self._directory.disk,
            now_ms=now_ms,
            map_entries_max=self._map_entries_max,
            statistics=self.statistics,
            background=self._background,
        )
        steps = self._finish(log, cleaning, now_ms)
        self._running[log] = steps
        try:
            while self._running.get(log) is steps and log.offline is None:
                if not self._step(steps):
                    self.statistics.passes += 1
                    return
                yield
            self.statistics.passes_given_up += 1
        except (UnsoundSegment, DecodeError) as error:
            logger.error("%s is not compacted until the next start: %s", log.topic_partition, error)
            self._give_up(log, INT64_MAX)
        except OSError as error:
            logger.error("%s could not be compacted: %s", log.topic_partition, error)
            self._give_up(log, now_ms + RETRY_AFTER_MS)
        except Exception:
            # A bug, or no memory. Other logs must get their turn.
            self._give_up(log, now_ms + RETRY_AFTER_MS)
            raise
        finally:
            if self._running.get(log) is steps:
                del self._running[log]

    def abort(self, log: PartitionLog) -> None:
        """Drop the pass over this log, if there is one, before its topic is deleted or its files are closed."""
        if self._running.pop(log, None) is not None and log.offline is None:
            remove_unfinished(self._directory.disk, log.folder)

    def _step(self, steps: Iterator[None]) -> bool:
        """Do one slice. Returns whether another one follows."""
        started_ms = self._clock.monotonic_ms()
        try:
            next(steps)
        except StopIteration:
            return False
        finally:
            seconds = (self._clock.monotonic_ms() - started_ms) / 1000
            self.statistics.seconds += seconds
            self.statistics.slice_seconds_max = max(self.statistics.slice_seconds_max, seconds)
        return True

    def _finish(self, log: PartitionLog, cleaning: CleaningPass, now_ms: int) -> Iterator[None]:
        """Run the pass, then write the offset that it has reached."""
        reached = yield from cleaning.run()
        self._offsets.reached(log, reached)
        if reached == cleaning.cleanable.first_dirty_offset:
            self._not_before_ms[log] = now_ms + RETRY_AFTER_MS  # It had to leave segments as they are.
        yield from self._background(self._offsets.write)

    def _give_up(self, log: PartitionLog, not_before_ms: int) -> None:
        self.statistics.passes_given_up += 1
        self._not_before_ms[log] = not_before_ms
        if log.offline is None:
            try:
                remove_unfinished(self._directory.disk, log.folder)
            except OSError as error:
                logger.warning("%s: files of a pass that was given up stay for now: %s", log.topic_partition, error)

    def _roll_if_due(self, log: PartitionLog, now_ms: int) -> bool:
        """Close the active segment if it is due to roll. Returns whether it was closed."""
        try:
            if not is_due_to_roll(log, now_ms):
                return False
            log.roll(now_ms)
        except (KafkaError, OSError) as error:
            logger.error("%s: its segment could not be closed: %s", log.topic_partition, error)
            return False
        return True

    def _forget_deleted(self) -> None:
        here = set(map(id, self._directory.logs.values()))
        for log in [log for log in self._not_before_ms if id(log) not in here]:
            del self._not_before_ms[log]
        self._offsets.release_deleted()
