"""The partitions that this broker leads, and who waits for them.

A ``Partition`` joins a log to its waiters: Produce requests until their last record is below the high watermark, Fetch
requests until there is enough to read. Waiters are told once per turn of the event loop, however many batches were
appended in it.

The law: an acknowledgement waits for ``high_watermark > last_offset``, duplicates included, so a retry is not told yes
before the original is safe; and whoever waits is told, by progress, by failure, or by its deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from semel.broker.partitions.transaction_gate import TransactionGate
from semel.errors import ErrorCode
from semel.log.batch_check import BatchCheck
from semel.log.partition_log import Appended, PartitionLog
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker

logger = logging.getLogger("semel.broker")


class CommitWaiter(Protocol):
    """Somebody who appended and waits until that is safe."""

    def committed(self, token: object) -> None: ...

    def failed(self, token: object, code: ErrorCode) -> None: ...


class ReadWaiter(Protocol):
    """Somebody who read to the end and waits for more."""

    def moved(self, partition: Partition) -> None:
        """There is more to read."""

    def gone(self, partition: Partition) -> None:
        """The partition went away or offline; reading it again will say how."""


class Partition:
    __slots__ = (
        "_committing",
        "_invisible",
        "_readers",
        "_table",
        "_visible_bytes",
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
        self._committing: deque[tuple[int, CommitWaiter, object]] = deque()
        self._readers: dict[ReadWaiter, None] = {}
        # Where each append that is not visible yet ends: its last offset, and all bytes appended up to there.
        self._visible_bytes = 0
        self._invisible: deque[tuple[int, int]] = deque()

    def append(
        self,
        records: memoryview,
        *,
        now_ms: int,
        require_zero_first: bool = False,
        check: BatchCheck | None = None,
    ) -> Appended:
        """Append a batch. Raises KafkaError or StorageError, and then nothing was appended."""
        appended = self.log.append(records, now_ms=now_ms, require_zero_first=require_zero_first, check=check)
        if not appended.duplicate:
            self._invisible.append((appended.last_offset, self.log.appended_bytes))
        return appended

    def append_placed(self, batch: bytes, *, now_ms: int, awaited: bool) -> Appended:
        """Append what a coordinator has built for the log end. Raises like append."""
        appended = self.log.append_placed(batch, now_ms=now_ms, awaited=awaited)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        return appended

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        *,
        now_ms: int,
        transaction_version: int,
    ) -> Appended:
        """End a producer's transaction here: from now on it needs its coordinator's word again. Raises like append."""
        appended = self.log.append_marker(
            producer_id, producer_epoch, marker, now_ms=now_ms, transaction_version=transaction_version
        )
        self.gate.close(producer_id)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        return appended

    def when_committed(self, last_offset: int, waiter: CommitWaiter, token: object) -> None:
        """Tell ``waiter`` once ``last_offset`` is below the high watermark."""
        self._committing.append((last_offset, waiter, token))
        self.log.sync_unawaited()

    def watch(self, reader: ReadWaiter) -> None:
        self._readers[reader] = None

    def unwatch(self, reader: ReadWaiter) -> None:
        self._readers.pop(reader, None)

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
            if not self._committing and not self._readers:
                self.visible_bytes()
                return  # Nobody waits: most appends of a transaction are for no reader yet.
        self._table.moved(self)

    def tell_waiters(self) -> None:
        if self.log.offline is not None:
            self.fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        committing, high_watermark = self._committing, self.log.high_watermark
        while committing and committing[0][0] < high_watermark:
            _, waiter, token = committing.popleft()
            waiter.committed(token)
        self.visible_bytes()
        for reader in list(self._readers):
            reader.moved(self)

    def fail_waiters(self, code: ErrorCode) -> None:
        while self._committing:
            _, waiter, token = self._committing.popleft()
            waiter.failed(token, code)
        self.release_readers()

    def release_readers(self) -> None:
        for reader in list(self._readers):
            reader.gone(self)


class Partitions:
    """The table of partitions, and the one callback per turn of the loop that tells their waiters."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.unavailable: dict[tuple[str, int], str] = {}  # Those that should be here and cannot, and why.
        self.generation = 0  # Grows with every partition that comes or goes.
        self.on_add: Callable[[Partition], None] = _nobody
        self.on_remove: Callable[[Partition], None] = _nobody
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
        self.generation += 1
        log.on_durable = partition.durable
        # After a restart what is on disk is all there is: it may be read.
        partition.durable(log)
        self.on_add(partition)
        return partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """The partition was deleted: whoever waits for it learns that it does not exist."""
        self.unavailable.pop(topic_partition, None)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            self.generation += 1
            self._moved.pop(partition, None)
            partition.fail_waiters(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.on_remove(partition)

    def moved(self, partition: Partition) -> None:
        self._moved[partition] = None
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._tell)

    def release_readers(self) -> None:
        """The broker stops: whoever waits for records gets what there is."""
        for partition in self:
            partition.release_readers()

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
                partition.tell_waiters()
            except Exception:
                logger.exception("waiters of %s could not be told", partition.topic_partition)


def _nobody(partition: Partition) -> None:
    """Until somebody wants to know which partitions are here."""
