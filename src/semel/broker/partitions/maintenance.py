"""The periodic tasks of a broker on its logs: retention, compaction, expiry of idle producers, checkpoints.

Timers of the event loop start each task. A round of retention or expiry does one slice of one partition in each turn of
the loop, so that ten thousand partitions do not delay a client; compaction works in slices of a few milliseconds with a
pause after each. If the work on one partition fails, that is logged, and the round goes on with the next partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from semel.broker.node import Node
from semel.errors import KafkaError
from semel.log.retention import below_start_steps, retention_steps
from semel.log.worker import Worker

if TYPE_CHECKING:
    from semel.log.compaction.cleaner import LogCleaner
    from semel.log.partition_log import PartitionLog

logger = logging.getLogger("semel.broker")

# How often the log directory is asked whether a checkpoint is due. It decides that by bytes written and time.
CHECKPOINT_LOOK_INTERVAL_MS: Final = 1000
# After how many of these intervals logs that could not be made are tried again.
UNAVAILABLE_LOOKS: Final = 5
# How many producers are examined in one turn of the loop: this takes about a millisecond.
EXPIRY_SLICE: Final = 5000
# The pause between two slices of compaction, each about as long: compaction takes at most half of the loop's time.
COMPACTION_PAUSE_MS: Final = 4


class Maintenance:
    """The timers and rounds of the periodic tasks on the logs of one broker."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop, make_worker: Callable[[str], Worker]) -> None:
        self._node = node
        self._loop = loop
        self._make_worker = make_worker
        self._timers: dict[str, asyncio.Handle] = {}
        self._ticks = 0
        self._compacting: PartitionLog | None = None
        self._cleaner_worker: Worker | None = None

    def start(self) -> None:
        self._later("retention", self._node.config.log_retention_check_interval_ms, self._retention)
        self._later("producers", self._node.config.producer_id_expiration_check_interval_ms, self._producers)
        self._later("checkpoint", CHECKPOINT_LOOK_INTERVAL_MS, self._checkpoint)
        if self._node.config.log_cleaner_enable:
            self._later("compaction", self._node.config.log_cleaner_backoff_ms, self._compaction)

    def stop(self) -> None:
        """Stop all tasks. A pass of compaction that is under way is abandoned, and done again after the next start."""
        self._cancel()
        if self._node.cleaner is not None and self._compacting is not None:
            # Temporary files that cannot be removed now are removed by the next start.
            with contextlib.suppress(OSError):
                self._node.cleaner.abort(self._compacting)
        if self._cleaner_worker is not None:
            self._cleaner_worker.kill()

    def kill(self) -> None:
        self._cancel()
        if self._cleaner_worker is not None:
            self._cleaner_worker.kill()

    def _cancel(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _later(self, name: str, interval_ms: float, work: Callable[[], None]) -> None:
        self._timers[name] = self._loop.call_later(interval_ms / 1000, work)

    def _checkpoint(self) -> None:
        self._later("checkpoint", CHECKPOINT_LOOK_INTERVAL_MS, self._checkpoint)
        self._node.logs.tidy()
        self._node.logs.checkpoint_if_due()
        self._ticks += 1
        if self._node.partitions.unavailable and self._ticks % UNAVAILABLE_LOOKS == 0:
            self._node.open_unavailable()

    def _retention(self) -> None:
        def slices() -> Iterator[tuple[PartitionLog, Callable[[], object]]]:
            for log in list(self._node.logs.logs.values()):
                is_led = self._node.partitions.get(*log.topic_partition) is not None
                steps = retention_steps(log, self._node.clock.now_ms()) if is_led else below_start_steps(log)
                ended: list[int | None] = []

                def step(steps: Generator[None, None, int] = steps, ended: list[int | None] = ended) -> None:
                    try:
                        next(steps)
                    except StopIteration as end:
                        ended.append(end.value)

                # After an exception the generator has ended as well; the slices of an offline log are not done.
                while not ended and log.offline is None:
                    yield log, step
                if ended and ended[0]:
                    logger.info("%s: %d segments are past their retention and gone", log.topic_partition, ended[0])

        def again() -> None:
            self._later("retention", self._node.config.log_retention_check_interval_ms, self._retention)

        self._round("retention", slices(), again)

    def _producers(self) -> None:
        now_ms = self._node.clock.now_ms()

        def slices() -> Iterator[tuple[PartitionLog, Callable[[], object]]]:
            for log in list(self._node.logs.logs.values()):
                producers = log.producers
                producers.producer_id_expiration_ms = self._node.config.producer_id_expiration_ms
                producer_ids = producers.producer_ids()
                for first in range(0, len(producer_ids), EXPIRY_SLICE):
                    some = producer_ids[first : first + EXPIRY_SLICE]
                    yield log, partial(producers.expire, now_ms, some)

        def again() -> None:
            self._later("producers", self._node.config.producer_id_expiration_check_interval_ms, self._producers)

        self._round("producers", slices(), again)

    def _compaction(self) -> None:
        now_ms = self._node.clock.now_ms()
        pause_ms: float = self._node.config.log_cleaner_backoff_ms
        try:
            cleaner = self._cleaner()
            log = self._compacting = cleaner.choose(now_ms)
            if cleaner.has_more_to_close:
                pause_ms = COMPACTION_PAUSE_MS
        except OSError as error:
            logger.error("compaction is tried again later: %s", error)
            log = None
        if log is None:
            self._later("compaction", pause_ms, self._compaction)
        else:
            self._slice(cleaner.clean(log, now_ms))

    def _slice(self, steps: Iterator[None]) -> None:
        pause_ms: float = COMPACTION_PAUSE_MS
        try:
            next(steps)
        except StopIteration:
            self._later("compaction", pause_ms, self._compaction)
            return
        except Exception:
            logger.exception("compaction of %s failed", self._compacting)
            self._later("compaction", self._node.config.log_cleaner_backoff_ms, self._compaction)
            return
        self._later("compaction", pause_ms, lambda: self._slice(steps))

    def _cleaner(self) -> LogCleaner:
        if self._node.cleaner is None:
            from semel.log.compaction.cleaner import LogCleaner  # Imported when needed: a start is faster.

            self._cleaner_worker = self._make_worker("semel-cleaner")
            self._node.cleaner = LogCleaner(
                self._node.logs,
                self._node.clock,
                worker=self._cleaner_worker,
                offsets=self._node.logs.cleaner_offsets,
                dedupe_buffer_size_bytes=self._node.config.log_cleaner_dedupe_buffer_size,
            )
        return self._node.cleaner

    def _round(
        self, name: str, slices: Iterator[tuple[PartitionLog, Callable[[], object]]], again: Callable[[], None]
    ) -> None:
        """Do the next slice of a round, and the others in later turns of the loop; then call ``again``."""
        found = next(slices, None)
        if found is None:
            again()
            return
        log, work = found
        if log.offline is None:
            try:
                work()
            except (OSError, KafkaError) as error:
                logger.error("%s of %s failed and is tried again later: %s", name, log.topic_partition, error)
            except Exception:
                logger.exception("%s of %s failed", name, log.topic_partition)
        self._timers[name] = self._loop.call_soon(self._round, name, slices, again)
