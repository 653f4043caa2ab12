"""The partitions that this broker leads, and the delayed operations that wait for them.

A ``Partition`` joins a log to these: Produce requests until their last record is below the high watermark, Fetch
requests until there is enough to read. They are told once per turn of the event loop, however many batches were
appended in it.

The law: an acknowledgement waits for ``high_watermark > last_offset``, duplicates included, so a retry is not told yes
before the original is safe; and every operation is told, by progress, by failure, or by its deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from semel.broker.partitions.transaction_gate import TransactionGate
from semel.broker.waiting.delayed_operation import AwaitsCommit, DelayedOperation
from semel.errors import ErrorCode
from semel.log.batch_check import BatchCheck
from semel.log.partition_log import Appended, PartitionLog
from semel.types import ProducerIdentity, TopicPartition
from semel.wire.control import EndTransactionMarker
from semel.wire.records import BatchHeader

logger = logging.getLogger("semel.broker")


class Partition:
    __slots__ = (
        "_invisible",
        "_table",
        "_uncommitted",
        "_visible_bytes",
        "_watching",
        "gate",
        "leader_epoch",
        "log",
        "topic_partition",
    )

    def __init__(self, table: Partitions, log: PartitionLog, leader_epoch: int) -> None:
        self._table = table
        self.log = log
        self.topic_partition = log.topic_partition
        self.leader_epoch = leader_epoch
        self.gate = TransactionGate()
        self._uncommitted: deque[tuple[int, AwaitsCommit, object]] = deque()
        self._watching: dict[DelayedOperation, None] = {}
        # Where each append that is not visible yet ends: its last offset, and all bytes appended up to there.
        self._visible_bytes = 0
        self._invisible: deque[tuple[int, int]] = deque()

    def append(
        self,
        records: memoryview,
        now_ms: int,
        header: BatchHeader | None = None,
        check: BatchCheck | None = None,
        require_zero_first: bool = False,
    ) -> Appended:
        """Append a batch. Raises KafkaError or StorageError, and then nothing was appended."""
        appended = self.log.append(records, now_ms, header, check, require_zero_first)
        if not appended.duplicate:
            self._invisible.append((appended.last_offset, self.log.appended_bytes))
        return appended

    def append_placed(self, batch: bytes, *, now_ms: int, awaited: bool) -> Appended:
        """Append what a coordinator has built for the log end. Raises like append."""
        appended = self.log.append_placed(batch, now_ms=now_ms, awaited=awaited)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        return appended

    def append_marker(
        self, producer: ProducerIdentity, marker: EndTransactionMarker, *, now_ms: int, transaction_version: int
    ) -> Appended:
        """End a producer's transaction here: from now on it needs its coordinator's word again. Raises like append."""
        appended = self.log.append_marker(producer, marker, now_ms=now_ms, transaction_version=transaction_version)
        self.gate.close(producer.producer_id)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        return appended

    def when_committed(self, last_offset: int, operation: AwaitsCommit, token: object) -> None:
        """Call ``operation.committed(token)`` once ``last_offset`` is below the high watermark."""
        self._uncommitted.append((last_offset, operation, token))
        self.log.sync_unawaited()

    def watch(self, fetch: DelayedOperation) -> None:
        """Call ``fetch.committed(self)`` whenever there is more to read."""
        self._watching[fetch] = None

    def unwatch(self, fetch: DelayedOperation) -> None:
        self._watching.pop(fetch, None)

    def visible_bytes(self) -> int:
        """Bytes that became visible since the start: the difference of two values is what came to be read between."""
        high_watermark = self.log.high_watermark
        invisible = self._invisible
        while invisible and invisible[0][0] < high_watermark:
            self._visible_bytes = invisible.popleft()[1]
        return self._visible_bytes

    def durable(self, log: PartitionLog) -> None:
        """The log's ``on_durable``: more of it survives a power cut, or it went offline."""
        if log.offline is None:
            # One node is its own set of in-sync replicas.
            log.advance_high_watermark(log.durable_offset)
            if not self._uncommitted and not self._watching:
                self.visible_bytes()
                return  # Most appends of a transaction are for no reader yet.
        self._table.moved(self)

    def tell_delayed(self) -> None:
        """Tell the operations that wait for this partition how far the high watermark is."""
        if self.log.offline is not None:
            self.fail_delayed(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        uncommitted, high_watermark = self._uncommitted, self.log.high_watermark
        while uncommitted and uncommitted[0][0] < high_watermark:
            _, operation, token = uncommitted.popleft()
            operation.committed(token)
        self.visible_bytes()
        for fetch in list(self._watching):
            fetch.committed(self)

    def fail_delayed(self, code: ErrorCode) -> None:
        while self._uncommitted:
            _, operation, token = self._uncommitted.popleft()
            operation.failed(token, code)
        for fetch in list(self._watching):
            fetch.failed(self, code)

    def expire_fetches(self) -> None:
        for fetch in list(self._watching):
            fetch.expired()


class Partitions:
    """The table of partitions, and the one callback per turn of the loop that tells the operations that wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.unavailable: dict[tuple[str, int], str] = {}  # Those that should be here and cannot, and why.
        self.caches: list[dict[Any, Any]] = []
        """Emptied whenever a partition comes or goes: what is kept of one that is gone would keep its files open."""
        self.on_add: Callable[[Partition], None] = _unwatched
        self.on_remove: Callable[[Partition], None] = _unwatched
        self._moved: dict[Partition, None] = {}
        self._scheduled: asyncio.Handle | None = None

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic: str, partition: int) -> Partition | None:
        return self._partitions.get((topic, partition))

    def add(self, log: PartitionLog, *, leader_epoch: int) -> Partition:
        partition = Partition(self, log, leader_epoch)
        self._partitions[log.topic_partition] = partition
        self.unavailable.pop(log.topic_partition, None)
        self._clear_caches()
        log.on_durable = partition.durable
        # After a restart what is on disk is all there is: it may be read.
        partition.durable(log)
        self.on_add(partition)
        return partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """The partition was deleted: the operations that wait for it learn that it does not exist."""
        self.unavailable.pop(topic_partition, None)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            self._clear_caches()
            self._moved.pop(partition, None)
            partition.fail_delayed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.on_remove(partition)
            # Else log and partition would keep each other, and the files open, until the next full collection.
            partition.log.on_durable = _ignored

    def _clear_caches(self) -> None:
        for cache in self.caches:
            cache.clear()

    def moved(self, partition: Partition) -> None:
        self._moved[partition] = None
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._tell)

    def expire_fetches(self) -> None:
        """The broker stops: a Fetch that waits for records is answered with what there is."""
        for partition in self:
            partition.expire_fetches()

    def close(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        self._moved.clear()

    def _tell(self) -> None:
        self._scheduled = None
        moved, self._moved = self._moved, {}
        for partition in moved:
            try:
                partition.tell_delayed()
            except Exception:
                logger.exception("the operations that wait for %s could not be told", partition.topic_partition)


def _unwatched(partition: Partition) -> None:
    """Used until a watcher of the partitions is set."""


def _ignored(log: PartitionLog) -> None:
    """The ``on_durable`` of a log whose partition is gone."""
