"""What a broker does when nobody asks: retention, forgetting idle producers, checkpoints.

Timers of the event loop drive it. Each round does one partition per turn of the loop, so that ten thousand of them do
not make a client wait; a partition that fails is a line in the log, and the others get their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from semel.broker.node import Node
from semel.broker.partitions import Partition

logger = logging.getLogger("semel.broker")

# Looking costs nothing; what is due is decided by the log directory, by bytes written and time.
CHECKPOINT_LOOK_INTERVAL_MS: Final = 1000


class Maintenance:
    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._timers: dict[str, asyncio.Handle] = {}

    def start(self) -> None:
        self._later("retention", self._node.config.log_retention_check_interval_ms, self._retention)
        self._later("producers", self._node.config.producer_id_expiration_check_interval_ms, self._producers)
        self._later("checkpoint", CHECKPOINT_LOOK_INTERVAL_MS, self._checkpoint)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _later(self, name: str, interval_ms: float, work: Callable[[], None]) -> None:
        self._timers[name] = self._loop.call_later(interval_ms / 1000, work)

    def _checkpoint(self) -> None:
        self._later("checkpoint", CHECKPOINT_LOOK_INTERVAL_MS, self._checkpoint)
        self._node.logs.checkpoint_if_due()

    def _retention(self) -> None:
        def one(partition: Partition) -> None:
            removed = partition.log.apply_retention(self._node.clock.now_ms())
            if removed:
                logger.info("%s: %d segments are past their retention and gone", partition.topic_partition, removed)

        def again() -> None:
            self._later("retention", self._node.config.log_retention_check_interval_ms, self._retention)

        self._round("retention", iter(self._node.partitions), one, again)

    def _producers(self) -> None:
        def one(partition: Partition) -> None:
            producers = partition.log.producers
            producers.producer_id_expiration_ms = self._node.config.producer_id_expiration_ms
            producers.expire(self._node.clock.now_ms())

        def again() -> None:
            self._later("producers", self._node.config.producer_id_expiration_check_interval_ms, self._producers)

        self._round("producers", iter(self._node.partitions), one, again)

    def _round(
        self, name: str, partitions: Iterator[Partition], one: Callable[[Partition], None], again: Callable[[], None]
    ) -> None:
        partition = next(partitions, None)
        if partition is None:
            again()
            return
        if partition.log.offline is None:
            try:
                one(partition)
            except Exception:
                logger.exception("%s of %s failed", name, partition.topic_partition)
        self._timers[name] = self._loop.call_soon(self._round, name, partitions, one, again)
