"""The partitions that this broker leads, and the delayed operations that wait for them.

A ``Partition`` object is one term of leadership: it is made with a leader epoch and is never used after that epoch has
ended. It connects a log with the operations that wait for it: Produce requests until their last record is below the
high watermark, Fetch requests until there is enough to read. Waiting operations are called once in a turn of the event
loop, however many batches were appended in it. A log that is not led here is only in the log directory.

A partition with several replicas has a ``ReplicaSet``, which determines the high watermark, and the followers that copy
from it (``broker/replication``). A partition with one replica has neither: its synced records are committed.

The law: an acknowledgement waits for ``high_watermark > last_offset``, also for duplicates, so a retry is not
acknowledged before the original is committed. And every waiting operation ends: by commit, by failure, or by its
deadline.
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

# The offset, or the ticket of a confirmation, that is waited for; the operation that waits; and its token.
Waiting: TypeAlias = deque[tuple[int, AwaitsCommit, object]]


class Follower(Protocol):
    """A replica that copies this partition, as its leader sees it."""

    def data_available(self) -> None:
        """Answer the follower's Fetch now: there are records to copy, or DeleteRecords waits for its log start."""

    def high_watermark_moved(self) -> None:
        """Send the new high watermark with the next response to the follower."""

    def confirm(self) -> None:
        """Answer the follower's Fetch now, so that its next Fetch confirms that it still follows this term."""

    def position_unknown(self) -> None:
        """Have the follower send its position again: what it had does not count any more."""

    def term_ended(self) -> None: ...


class Partition:
    """A partition that this broker leads, for one term of leadership."""

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
        "ended",
        "followers",
        "gate",
        "leader_epoch",
        "log",
        "replicas",
        "topic_partition",
    )

    def __init__(
        self, table: LedPartitions, log: PartitionLog, leader_epoch: int, replicas: ReplicaSet | None = None
    ) -> None:
        self._table = table
        self.log = log
        self.topic_partition = log.topic_partition
        self.leader_epoch = leader_epoch
        self.gate = TransactionGate()
        self.replicas = replicas
        """None if the partition has one replica."""
        self.ended: ErrorCode | None = None
        """Why the term has ended: the error for requests that come too late. None while this broker leads."""
        self.followers: dict[int, Follower] = {}
        self._uncommitted: Waiting = deque()
        # With several replicas: what waits for acks=1, for acks=all, and for a confirmation of the term.
        self._unsynced: Waiting = deque()
        self._produced: Waiting = deque()
        self._unconfirmed: Waiting = deque()
        self._asked_s: deque[tuple[int, float]] = deque()  # Each ticket of a confirmation, and when it was asked for.
        self._undeleted: Waiting = deque()
        self._log_starts: dict[int, int] = {}  # The log starts of the followers, by their last Fetch.
        self._watching: dict[DelayedOperation, None] = {}
        # For each append that is not visible yet: its last offset, and all bytes that were appended up to its end.
        self._visible_bytes = 0
        self._invisible: deque[tuple[int, int]] = deque()
        if log.high_watermark < log.log_end_offset:  # Appended in the last term.
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
        """Append a batch that a coordinator has built for the log end. Raises like ``append``."""
        appended = self.log.append_placed(batch, now_ms=now_ms, awaited=awaited)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        if self.replicas is not None:
            self._appended(self.replicas)
        return appended

    def append_marker(
        self, producer: ProducerIdentity, marker: EndTransactionMarker, *, now_ms: int, transaction_version: int
    ) -> Appended:
        """Append a marker, which ends the producer's transaction here and its admission too. Raises like ``append``."""
        appended = self.log.append_marker(producer, marker, now_ms=now_ms, transaction_version=transaction_version)
        self.gate.close(producer.producer_id)
        self._invisible.append((appended.last_offset, self.log.appended_bytes))
        if self.replicas is not None:
            self._appended(self.replicas)
        return appended

    def _appended(self, replicas: ReplicaSet) -> None:
        replicas.appended(self.log.log_end_offset)
        for follower in self.followers.values():
            follower.data_available()

    @property
    def others_are_in_sync(self) -> bool:
        """Whether another broker is in the in-sync set, and can lead the partition in place of this one."""
        return self.replicas is not None and len(self.replicas.isr) > 1

    def check_enough_replicas(self) -> None:
        """Raise KafkaError (NOT_ENOUGH_REPLICAS) if an append with acks=all could not be acknowledged now."""
        replicas = self.replicas
        if replicas is not None and not replicas.has_enough:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(replicas.isr)} in-sync replicas; min.insync.replicas is "
                f"{replicas.min_insync_replicas}",
            )

    def is_acknowledged(self, last_offset: int, *, by_all: bool) -> bool:
        """Whether a batch that ends at ``last_offset`` may be acknowledged; ``by_all`` for acks=all."""
        if by_all or self.replicas is None:
            return self.log.high_watermark > last_offset
        return self.log.durable_offset > last_offset

    def when_acknowledged(self, last_offset: int, operation: AwaitsCommit, token: object, *, by_all: bool) -> None:
        """Call ``operation.committed(token)`` once a batch that ends at ``last_offset`` may be acknowledged."""
        if self.replicas is None:
            self.when_committed(last_offset, operation, token)
        else:
            (self._produced if by_all else self._unsynced).append((last_offset, operation, token))

    @property
    def concerns_coordinators(self) -> bool:
        """Whether this is a partition of an internal topic, or one with an open transaction."""
        return self.topic_partition.topic in INTERNAL_TOPICS or self.log.producers.first_undecided_offset is not None

    @property
    def has_unconfirmed(self) -> bool:
        return bool(self._unconfirmed)

    def when_confirmed(self, operation: AwaitsCommit, token: object) -> bool:
        """Call ``operation.committed(token)`` once all records that are in the log now are committed, and the other
        in-sync replicas have confirmed that this term goes on.

        Returns False, and never calls the operation, if that is so already.
        """
        replicas = self.replicas
        assert replicas is not None
        ticket = replicas.ask_confirmation()
        if replicas.confirmed_ticket >= ticket:
            return False
        self._unconfirmed.append((ticket, operation, token))
        self._asked_s.append((ticket, self._table.time_s()))
        self._sync_awaited()
        for follower in self.followers.values():
            follower.confirm()
        return True

    @property
    def low_watermark(self) -> int:
        """The log start that all in-sync replicas have reached: records below it cannot reappear after an election."""
        if self.replicas is None:
            return self.log.log_start_offset
        others = self.replicas.maximal_isr & self._log_starts.keys()
        known = [self._log_starts[replica] for replica in others]
        if len(known) < len(self.replicas.maximal_isr) - 1:
            return 0  # A follower has not sent a Fetch in this term.
        return min([self.log.log_start_offset, *known])

    def when_deleted(self, offset: int, operation: AwaitsCommit, token: object) -> None:
        """Call ``operation.committed(token)`` once ``low_watermark`` has reached ``offset``."""
        self._undeleted.append((offset, operation, token))
        for follower in self.followers.values():
            follower.data_available()
        self._table.moved(self)

    def log_starts_at(self, replica: int, offset: int) -> None:
        """Record the log start offset of a follower, from its Fetch."""
        self._log_starts[replica] = offset
        if self._undeleted:
            self._table.moved(self)

    def when_committed(self, last_offset: int, operation: AwaitsCommit, token: object) -> None:
        """Call ``operation.committed(token)`` once ``last_offset`` is below the high watermark."""
        self._uncommitted.append((last_offset, operation, token))
        self._sync_awaited()

    def _sync_awaited(self) -> None:
        """Sync what was written without ``awaited``. If the log is offline, no sync will end: fail what waits."""
        if self.log.offline is None:
            self.log.sync_unawaited()
        else:
            self._table.moved(self)

    def watch(self, fetch: DelayedOperation) -> None:
        """Call ``fetch.committed(self)`` whenever there is more to read."""
        self._watching[fetch] = None

    def unwatch(self, fetch: DelayedOperation) -> None:
        self._watching.pop(fetch, None)

    def visible_bytes(self) -> int:
        """Return the bytes that have become visible to readers since the log was opened. Only the difference of two
        values is meaningful: the bytes that became visible between two calls."""
        high_watermark = self.log.high_watermark
        invisible = self._invisible
        while invisible and invisible[0][0] < high_watermark:
            self._visible_bytes = invisible.popleft()[1]
        return self._visible_bytes

    def durable(self, log: PartitionLog) -> None:
        """The log's ``on_durable``: the durable offset has moved, or the log went offline."""
        if log.offline is None:
            if self.replicas is not None:
                self._replicated(self.replicas.leader_synced(log.durable_offset))
                return
            # This broker is the only in-sync replica.
            log.advance_high_watermark(log.durable_offset)
            if not self._uncommitted and not self._watching:
                self.visible_bytes()
                return  # The most frequent case: no operation waits for this append.
        elif self.replicas is not None:
            self._table.on_offline(self)
        self._table.moved(self)

    # Several replicas

    def fetched(self, replica: int, offset: int, *, broker_epoch: int, now_ms: float) -> None:
        """Record that a follower has all records below ``offset`` on its disk, from its Fetch."""
        assert self.replicas is not None
        if self.replicas.fetched(replica, offset, broker_epoch=broker_epoch, now_ms=now_ms):
            self._replicated(True)

    def replied(self, replica: int, mark: int) -> None:
        """Record that a follower has sent a Fetch of this term after it was asked to confirm tickets up to ``mark``."""
        assert self.replicas is not None
        if self.replicas.replied(replica, mark):
            self._table.moved(self)

    def isr_changed(self, isr: Iterable[int]) -> None:
        """Set the in-sync set: the image has a new one for this term."""
        assert self.replicas is not None
        moved = self.replicas.isr_changed(isr)
        for replica, follower in self.followers.items():
            if not self.replicas.has_heard_from(replica):
                follower.position_unknown()
        if not self.replicas.has_enough:
            _fail(self._produced, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._replicated(moved)

    def require_in_sync(self, min_insync_replicas: int) -> None:
        """Set ``min.insync.replicas``. If fewer are required now, the high watermark may move at once."""
        assert self.replicas is not None
        if self.replicas.min_insync_replicas != min_insync_replicas:
            self._replicated(self.replicas.require(min_insync_replicas))

    def proposal_settled(self) -> None:
        """End the proposal to change the in-sync set: its outcome is in the image."""
        assert self.replicas is not None
        self._replicated(self.replicas.proposal_settled())

    def _replicated(self, moved: bool) -> None:
        assert self.replicas is not None
        if moved:
            self.log.advance_high_watermark(self.replicas.high_watermark)
            for follower in self.followers.values():
                follower.high_watermark_moved()
        self._table.moved(self)

    def complete_delayed(self) -> None:
        """Call the operations whose wait has ended, by the high watermark, a confirmation, or an offline log."""
        if self.log.offline is not None:
            self.fail_delayed(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        _complete_below(self._uncommitted, self.log.high_watermark)
        if self.replicas is not None:
            _complete_below(self._unsynced, self.log.durable_offset)
            _complete_below(self._produced, self.log.high_watermark)
            _complete_below(self._unconfirmed, self.replicas.confirmed_ticket + 1)
            while self._asked_s and self._asked_s[0][0] <= self.replicas.confirmed_ticket:
                self._table.observe_confirmation(self._table.time_s() - self._asked_s.popleft()[1])
            if self._undeleted:
                _complete_below(self._undeleted, self.low_watermark + 1)
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


class LedPartitions:
    """The partitions that this broker leads. Operations that wait for them are called once in a turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.unavailable: dict[tuple[str, int], str] = {}  # Partitions that could not be opened, and why.
        self.caches: list[dict[Any, Any]] = []
        """Caches that are cleared whenever a term begins or ends: a cached partition would keep its files open."""
        self.on_add: list[Callable[[Partition], None]] = []
        """Called with each partition whose term begins."""
        self.on_remove: list[Callable[[Partition], None]] = []
        self.on_offline: Callable[[Partition], None] = _unwatched
        """Called with a partition that has other replicas when its log goes offline here."""
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
        """Begin a term of leadership. Returns its partition."""
        assert log.topic_partition not in self._partitions, f"{log.topic_partition}: the last term has not ended"
        partition = Partition(self, log, leader_epoch, replicas)
        self._partitions[log.topic_partition] = partition
        self.unavailable.pop(log.topic_partition, None)
        self._clear_caches()
        log.on_durable = partition.durable
        # With one replica, all records that are on disk after a restart are committed: they may be read.
        partition.durable(log)
        for begun in list(self.on_add):
            begun(partition)
        return partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """End the term of a deleted partition: operations that wait for it fail with UNKNOWN_TOPIC_OR_PARTITION."""
        self.unavailable.pop(topic_partition, None)
        self._end(topic_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def resign(self, topic_partition: TopicPartition) -> None:
        """End a term of leadership: operations that wait for the partition fail with NOT_LEADER_OR_FOLLOWER."""
        self._end(topic_partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, topic_partition: TopicPartition, code: ErrorCode) -> None:
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            partition.ended = code
            self._clear_caches()
            self._moved.pop(partition, None)
            partition.fail_delayed(code)
            for follower in list(partition.followers.values()):
                follower.term_ended()
            for ended in list(self.on_remove):
                ended(partition)
            # Else the reference cycle of log and partition would keep the files open until the next full collection.
            partition.log.on_durable = _ignored

    def _clear_caches(self) -> None:
        for cache in self.caches:
            cache.clear()

    def moved(self, partition: Partition) -> None:
        self._moved[partition] = None
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._complete_delayed)

    def expire_fetches(self) -> None:
        """Answer all waiting Fetches with the records that there are, because the broker stops."""
        for partition in self:
            partition.expire_fetches()

    def close(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        self._moved.clear()

    def _complete_delayed(self) -> None:
        self._scheduled = None
        moved, self._moved = self._moved, {}
        for partition in moved:
            try:
                partition.complete_delayed()
            except Exception:
                logger.exception("the operations that wait for %s could not be told", partition.topic_partition)


def _unwatched(partition: Partition) -> None:
    """The ``on_offline`` in a cluster of one broker."""


def _unmeasured(seconds: float) -> None:
    """The ``observe_confirmation`` until the metrics of replicas are set up."""


def _complete_below(waiting: Waiting, end: int) -> None:
    while waiting and waiting[0][0] < end:
        _, operation, token = waiting.popleft()
        operation.committed(token)


def _fail(waiting: Waiting, code: ErrorCode) -> None:
    while waiting:
        _, operation, token = waiting.popleft()
        operation.failed(token, code)


def _ignored(log: PartitionLog) -> None:
    """The ``on_durable`` of a log whose partition is gone."""
