"""The partitions that this broker leads, and the delayed operations that wait for them.

A ``Partition`` is one term of leadership: it is made with a leader epoch and ends with it, and so does all that rests
on it. It joins a log to what waits: Produce requests until their last record is below the high watermark, Fetch
requests until there is enough to read. They are told once per turn of the event loop, however many batches were
appended in it. A log that is here and not led is in the log directory only.

A partition with several replicas has a ``ReplicaSet``, which says how far the high watermark may go, and the followers
that copy from it (``broker/replication``). A partition with one replica has neither: what is synced is committed.

The law: an acknowledgement waits for ``high_watermark > last_offset``, duplicates included, so a retry is not told yes
before the original is safe; and every operation is told, by progress, by failure, or by its deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from semel.broker.partitions.transaction_gate import TransactionGate
from semel.broker.waiting.delayed_operation import AwaitsCommit, DelayedOperation
from semel.errors import ErrorCode, KafkaError
from semel.log.batch_check import BatchCheck
from semel.log.outcomes import Appended
from semel.log.partition_log import PartitionLog
from semel.replication.replica_set import ReplicaSet
from semel.types import INTERNAL_TOPICS, ProducerIdentity, TopicPartition
from semel.wire.control import EndTransactionMarker
from semel.wire.records import BatchHeader

logger = logging.getLogger("semel.broker")

# What is waited for (an offset, or the ticket of a confirmation), and what waits.
Waiting: TypeAlias = deque[tuple[int, AwaitsCommit, object]]


class Follower(Protocol):
    """A replica that copies this partition, as its leader sees it."""

    def has_news(self) -> None:
        """To be told now: there is more to copy, or the log start has moved, for which DeleteRecords waits."""

    def high_watermark_moved(self) -> None:
        """To be told with the next answer."""

    def confirm(self) -> None:
        """To be answered now: its next Fetch says that it still follows this term."""

    def term_ended(self) -> None: ...


class Partition:
    __slots__ = (
        "_asked_s",
        "_invisible",
        "_log_starts",
        "_produced",
        "_table",
        "_uncommitted",
        "_unconfirmed",
        "_undeleted",
        "_unsynced",
        "_visible_bytes",
        "_watching",
        "followers",
        "gate",
        "leader_epoch",
        "log",
        "replicas",
        "topic_partition",
    )

    def __init__(
        self, table: Partitions, log: PartitionLog, leader_epoch: int, replicas: ReplicaSet | None = None
    ) -> None:
        self._table = table
        self.log = log
        self.topic_partition = log.topic_partition
        self.leader_epoch = leader_epoch
        self.gate = TransactionGate()
        self.replicas = replicas
        """None if the partition has one replica."""
        self.followers: dict[int, Follower] = {}
        self._uncommitted: Waiting = deque()
        # With several replicas: produced with acks=1, produced with acks=all, and decisions that were not written.
        self._unsynced: Waiting = deque()
        self._produced: Waiting = deque()
        self._unconfirmed: Waiting = deque()
        self._asked_s: deque[tuple[int, float]] = deque()  # When the tickets of confirmations were asked for.
        self._undeleted: Waiting = deque()
        self._log_starts: dict[int, int] = {}  # Of the followers, as they said with their last Fetch.
        self._watching: dict[DelayedOperation, None] = {}
        # Where each append that is not visible yet ends: its last offset, and all bytes appended up to there.
        self._visible_bytes = 0
        self._invisible: deque[tuple[int, int]] = deque()
        if log.high_watermark < log.log_end_offset:  # Of the last term.
            self._invisible.append((log.log_end_offset - 1, log.appended_bytes))

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
            if self.replicas is not None:
                self._appended(self.replicas)
        return appended

    def append_placed(self, batch: bytes, *, now_ms: int, awaited: bool) -> Appended:
        """Append what a coordinator has built for the log end. Raises like append."""
        appended = self.log.append_placed(batch, now_ms=now_ms, awaited=awaited)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        if self.replicas is not None:
            self._appended(self.replicas)
        return appended

    def append_marker(
        self, producer: ProducerIdentity, marker: EndTransactionMarker, *, now_ms: int, transaction_version: int
    ) -> Appended:
        """End a producer's transaction here: from now on it needs its coordinator's word again. Raises like append."""
        appended = self.log.append_marker(producer, marker, now_ms=now_ms, transaction_version=transaction_version)
        self.gate.close(producer.producer_id)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        if self.replicas is not None:
            self._appended(self.replicas)
        return appended

    def _appended(self, replicas: ReplicaSet) -> None:
        replicas.appended(self.log.log_end_offset)
        for follower in self.followers.values():
            follower.has_news()

    def check_enough_replicas(self) -> None:
        """Raises NOT_ENOUGH_REPLICAS if what is appended now with acks=all could not be acknowledged."""
        replicas = self.replicas
        if replicas is not None and not replicas.has_enough:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(replicas.isr)} in-sync replicas; min.insync.replicas is "
                f"{replicas.min_insync_replicas}",
            )

    def is_acknowledged(self, last_offset: int, *, by_all: bool) -> bool:
        """Whether a producer may be told that what ends at ``last_offset`` is safe."""
        if by_all or self.replicas is None:
            return self.log.high_watermark > last_offset
        return self.log.durable_offset > last_offset

    def when_acknowledged(self, last_offset: int, operation: AwaitsCommit, token: object, *, by_all: bool) -> None:
        """Call ``operation.committed(token)`` once a producer may be told that ``last_offset`` is safe."""
        if self.replicas is None:
            self.when_committed(last_offset, operation, token)
        else:
            (self._produced if by_all else self._unsynced).append((last_offset, operation, token))

    @property
    def concerns_coordinators(self) -> bool:
        """Whether it is one of theirs, or has a transaction that was left open."""
        return self.topic_partition.topic in INTERNAL_TOPICS or self.log.producers.first_undecided_offset is not None

    @property
    def has_unconfirmed(self) -> bool:
        return bool(self._unconfirmed)

    def when_confirmed(self, operation: AwaitsCommit, token: object) -> bool:
        """Call ``operation.committed(token)`` once all that is in the log now is committed, and the other in-sync
        replicas have said that this term goes on. Returns False, and calls nothing, if that needs no reply.
        """
        replicas = self.replicas
        assert replicas is not None
        ticket = replicas.ask_confirmation()
        if replicas.confirmed_ticket >= ticket:
            return False
        self._unconfirmed.append((ticket, operation, token))
        self._asked_s.append((ticket, self._table.time_s()))
        self.log.sync_unawaited()
        for follower in self.followers.values():
            follower.confirm()
        return True

    @property
    def low_watermark(self) -> int:
        """The log start that all in-sync replicas have reached: what is below it does not come back."""
        if self.replicas is None:
            return self.log.log_start_offset
        others = self.replicas.maximal_isr & self._log_starts.keys()
        known = [self._log_starts[replica] for replica in others]
        if len(known) < len(self.replicas.maximal_isr) - 1:
            return 0  # A follower has not said anything in this term.
        return min([self.log.log_start_offset, *known])

    def when_deleted(self, offset: int, operation: AwaitsCommit, token: object) -> None:
        """Call ``operation.committed(token)`` once ``low_watermark`` has reached ``offset``."""
        self._undeleted.append((offset, operation, token))
        for follower in self.followers.values():
            follower.has_news()
        self._table.moved(self)

    def log_starts_at(self, replica: int, offset: int) -> None:
        """A follower's log starts here."""
        self._log_starts[replica] = offset
        if self._undeleted:
            self._table.moved(self)

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
            if self.replicas is not None:
                self._replicated(self.replicas.leader_synced(log.durable_offset))
                return
            # One node is its own set of in-sync replicas.
            log.advance_high_watermark(log.durable_offset)
            if not self._uncommitted and not self._watching:
                self.visible_bytes()
                return  # Most appends of a transaction are for no reader yet.
        elif self.replicas is not None:
            self._table.on_offline(self)
        self._table.moved(self)

    # Several replicas

    def fetched(self, replica: int, offset: int, *, broker_epoch: int, now_ms: float) -> None:
        """A follower has everything below ``offset`` on its disk."""
        assert self.replicas is not None
        if self.replicas.fetched(replica, offset, broker_epoch=broker_epoch, now_ms=now_ms):
            self._replicated(True)

    def replied(self, replica: int, mark: int) -> None:
        """A follower has sent a Fetch of this term after it was asked to confirm up to this ticket."""
        assert self.replicas is not None
        if self.replicas.replied(replica, mark):
            self._table.moved(self)

    def isr_changed(self, isr: Iterable[int]) -> None:
        """The image says so."""
        assert self.replicas is not None
        moved = self.replicas.isr_changed(isr)
        if not self.replicas.has_enough:
            _fail(self._produced, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._replicated(moved)

    def proposal_settled(self) -> None:
        """The outcome of a change of the in-sync set is in the image."""
        assert self.replicas is not None
        self._replicated(self.replicas.proposal_settled())

    def _replicated(self, moved: bool) -> None:
        assert self.replicas is not None
        if moved:
            self.log.advance_high_watermark(self.replicas.high_watermark)
            for follower in self.followers.values():
                follower.high_watermark_moved()
        self._table.moved(self)

    def tell_delayed(self) -> None:
        """Tell the operations that wait for this partition how far the high watermark is."""
        if self.log.offline is not None:
            self.fail_delayed(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        _tell_below(self._uncommitted, self.log.high_watermark)
        if self.replicas is not None:
            _tell_below(self._unsynced, self.log.durable_offset)
            _tell_below(self._produced, self.log.high_watermark)
            _tell_below(self._unconfirmed, self.replicas.confirmed_ticket + 1)
            while self._asked_s and self._asked_s[0][0] <= self.replicas.confirmed_ticket:
                self._table.observe_confirmation(self._table.time_s() - self._asked_s.popleft()[1])
            if self._undeleted:
                _tell_below(self._undeleted, self.low_watermark + 1)
        self.visible_bytes()
        for fetch in list(self._watching):
            fetch.committed(self)

    def fail_delayed(self, code: ErrorCode) -> None:
        for waiting in (self._uncommitted, self._unsynced, self._produced, self._unconfirmed, self._undeleted):
            _fail(waiting, code)
        for fetch in list(self._watching):
            fetch.failed(self, code)

    def expire_fetches(self) -> None:
        for fetch in list(self._watching):
            fetch.expired()


class Partitions:
    """The partitions that are led here, and one callback per turn of the loop that tells what waits for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.unavailable: dict[tuple[str, int], str] = {}  # Those that should be here and cannot, and why.
        self.caches: list[dict[Any, Any]] = []
        """Emptied whenever a partition comes or goes: what is kept of one that is gone would keep its files open."""
        self.on_add: list[Callable[[Partition], None]] = []
        """Called with every term that begins."""
        self.on_remove: list[Callable[[Partition], None]] = []
        self.on_offline: Callable[[Partition], None] = _unwatched
        """Told of a partition with other replicas whose log went offline here."""
        self.observe_confirmation: Callable[[float], None] = _unmeasured
        self.time_s = loop.time
        self._moved: dict[Partition, None] = {}
        self._scheduled: asyncio.Handle | None = None

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic: str, partition: int) -> Partition | None:
        return self._partitions.get((topic, partition))

    def add(self, log: PartitionLog, *, leader_epoch: int, replicas: ReplicaSet | None = None) -> Partition:
        """A term of leadership begins."""
        assert log.topic_partition not in self._partitions, f"{log.topic_partition}: the last term has not ended"
        partition = Partition(self, log, leader_epoch, replicas)
        self._partitions[log.topic_partition] = partition
        self.unavailable.pop(log.topic_partition, None)
        self._clear_caches()
        log.on_durable = partition.durable
        # With one replica, what is on disk after a restart is all there is: it may be read.
        partition.durable(log)
        for begun in list(self.on_add):
            begun(partition)
        return partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """The partition was deleted: the operations that wait for it learn that it does not exist."""
        self.unavailable.pop(topic_partition, None)
        self._end(topic_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def resign(self, topic_partition: TopicPartition) -> None:
        """A term of leadership ends: the operations that wait for it are told to look for the leader."""
        self._end(topic_partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, topic_partition: TopicPartition, code: ErrorCode) -> None:
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            self._clear_caches()
            self._moved.pop(partition, None)
            partition.fail_delayed(code)
            for follower in list(partition.followers.values()):
                follower.term_ended()
            for ended in list(self.on_remove):
                ended(partition)
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
    """Used in a cluster of one."""


def _unmeasured(seconds: float) -> None:
    """Used until the broker is measured."""


def _tell_below(waiting: Waiting, end: int) -> None:
    while waiting and waiting[0][0] < end:
        _, operation, token = waiting.popleft()
        operation.committed(token)


def _fail(waiting: Waiting, code: ErrorCode) -> None:
    while waiting:
        _, operation, token = waiting.popleft()
        operation.failed(token, code)


def _ignored(log: PartitionLog) -> None:
    """The ``on_durable`` of a log whose partition is gone."""
