"""The leader's side of copying: one session for each follower, with all partitions that it copies from this broker.

A follower has one Fetch under way at a time, or two when the first one waits and there is something to add. It names
the partitions whose position has changed; the answer has the partitions that have something to tell. A Fetch that finds
nothing waits in the session until there is something, or the next one comes.

    named in a Fetch --> position taken --> news? --> read, or error, or diverging epoch --> told --> named again

The laws:

- A position counts for the high watermark only under the leader epoch of this term, from a follower whose registration
  is the one in the image, and not where its log diverges from ours.
- A Fetch is the reply to the answers of the same session that had arrived when it was sent. So it confirms what was
  asked before they left, for all partitions of the session that it still follows under this term. A Fetch that was
  sent while another one was under way says so (``min_bytes`` is 0): the answer to that one had not arrived.
- A partition of which the follower knows a newer term than this broker is not refused: the answer waits for the image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Final
from uuid import UUID

from semel.broker.fetch.reading import diverging
from semel.broker.network.connection import Connection
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.types import INT32_MAX
from semel.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

logger = logging.getLogger("semel.broker")

# Per answer, so that neither side is busy with it for long.
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024

_Key = tuple[UUID, int]


class FollowerSessions:
    """The sessions of all followers, the newest of each."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop, *, random: Random) -> None:
        self._node = node
        self._loop = loop
        self._random = random
        self._sessions: dict[int, _Session] = {}
        self.on_progress: Callable[[Partition], None] = _ignored
        """Told when a follower that is not in sync has come further."""
        self.on_lost: Callable[[int], None] = _unwatched
        """Told of a follower whose connection is lost, its last Fetch answered or not."""
        node.partitions.on_add.append(self._term_begins)

    def fetch(self, request: Request, message: FetchRequest) -> FetchResponse | None:
        """Serve a follower's Fetch. It is answered later, if there is nothing to tell now."""
        state = message.replica_state
        registered = None if state.replica_id is None else self._node.image.brokers.get(state.replica_id)
        if state.replica_id is None or (registered is not None and state.replica_epoch < registered.epoch):
            return FetchResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        session = self._sessions.get(state.replica_id)
        if message.session_epoch == 0:
            if session is not None:
                session.end()
            session = self._sessions[state.replica_id] = _Session(
                self._node, self._loop, self, state.replica_id, state.replica_epoch, self._random.randint(1, INT32_MAX)
            )
        elif session is None or session.id != message.session_id or session.broker_epoch != state.replica_epoch:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        elif session.next_epoch != message.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return session.fetch(request, message)

    def refused(self, partition: Partition, offset: int, max_bytes: int) -> None:
        """Look for damage in the leader's own log: a follower asks again for what it was sent, or reading failed."""
        reason = partition.log.verify_copy(offset, max_bytes)
        if reason is None:
            return
        if partition.replicas is not None and len(partition.replicas.isr) > 1:
            self._node.logs.report_damage(partition.log, reason)
        else:
            logger.error("%s: no other broker in sync has what is damaged here: %s", partition.topic_partition, reason)

    def connection_closed(self, connection: Connection) -> None:
        for session in self._sessions.values():
            if session.connection is connection:
                self.on_lost(session.replica)

    def close(self) -> None:
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()

    def _term_begins(self, partition: Partition) -> None:
        if partition.replicas is not None:
            for session in self._sessions.values():
                session.term_begins(partition)


class _Session:
    """What one follower copies from this broker, and its Fetch, while that waits."""

    def __init__(
        self,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        sessions: FollowerSessions,
        replica: int,
        broker_epoch: int,
        session_id: int,
    ) -> None:
        self.node = node
        self.sessions = sessions
        self.replica = replica
        self.broker_epoch = broker_epoch
        self.id = session_id
        self.next_epoch = 0
        self.connection: Connection | None = None
        """Of the last Fetch."""
        self._loop = loop
        self._targets: dict[_Key, _Target] = {}
        self._news: dict[_Target, None] = {}
        self._quiet_news: dict[_Target, None] = {}  # Told with the next answer, whenever that is.
        self._unconfirmed: dict[_Target, None] = {}
        # What a Fetch that replies to the last answer confirms, and to the one before it.
        self._marks: dict[_Target, tuple[Partition, int]] = {}
        self._earlier_marks: dict[_Target, tuple[Partition, int]] = {}
        self._waiting: Request | None = None
        self._ticket = 0
        self._max_bytes = ANSWER_BYTES_MAX
        self._scheduled: asyncio.Handle | None = None

    # A Fetch

    def fetch(self, request: Request, message: FetchRequest) -> FetchResponse | None:
        self._answer_waiting()
        self.connection = request.connection
        self.next_epoch = (self.next_epoch + 1) & INT32_MAX
        now_ms = self.node.clock.monotonic_ms()
        for forgotten in message.forgotten_topics_data:
            for index in forgotten.partitions:
                target = self._targets.pop((forgotten.topic_id, index), None)
                if target is not None:
                    self._forget(target)
        for topic in message.topics:
            for asked in topic.partitions:
                key = (topic.topic_id, asked.partition)
                target = self._targets.get(key)
                if target is None:
                    target = self._targets[key] = _Target(self, topic.topic_id)
                target.take(asked, now_ms)
        self._replied(to_last=message.min_bytes > 0)
        self._max_bytes = max(1, min(message.max_bytes, ANSWER_BYTES_MAX, request.room_bytes()))
        if self._news or self._unconfirmed or self._marks:
            return self._answer()
        self._waiting = request
        self._ticket = self.node.deadlines.add(self, message.max_wait_ms)
        request.delay(self, hold=False)
        return None

    def _replied(self, *, to_last: bool) -> None:
        confirmed, self._earlier_marks = self._earlier_marks, {}
        if to_last:
            confirmed = {**confirmed, **self._marks}
            self._marks = {}
        for target, (partition, mark) in confirmed.items():
            if target.partition is partition:
                partition.replied(self.replica, mark)

    def expired(self) -> None:
        self._answer_waiting()

    def abandoned(self) -> None:
        """The follower's connection is lost. Its next one begins another session."""
        self._stop_waiting()

    def end(self) -> None:
        request = self._waiting
        self._stop_waiting()
        if request is not None:  # The answers of its connection wait in line behind this one.
            request.answer_delayed(lambda: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        for target in self._targets.values():
            self._forget(target)
        self._targets.clear()

    def term_begins(self, partition: Partition) -> None:
        target = self._targets.get((partition.log.topic_id, partition.log.partition))
        if target is None or target.is_told:
            return  # A follower that was refused is not listening: it names the partition again after a pause.
        if target.asked.current_leader_epoch == partition.leader_epoch:
            target.take(target.asked, self.node.clock.monotonic_ms())

    # What targets say

    def has_news(self, target: _Target) -> None:
        self._news[target] = None
        self._answer_soon()

    def has_quiet_news(self, target: _Target) -> None:
        self._quiet_news[target] = None

    def confirm(self, target: _Target) -> None:
        self._unconfirmed[target] = None
        self._answer_soon()

    def forget_news(self, target: _Target) -> None:
        self._news.pop(target, None)
        self._quiet_news.pop(target, None)

    def _forget(self, target: _Target) -> None:
        target.unbind()
        self.forget_news(target)
        self._unconfirmed.pop(target, None)
        self._marks.pop(target, None)
        self._earlier_marks.pop(target, None)

    # Answers

    def _answer_soon(self) -> None:
        """Answer the Fetch that waits at the end of this turn of the event loop, with all news until then."""
        if self._waiting is not None and self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._answer_waiting)

    def _answer_waiting(self) -> None:
        request = self._waiting
        self._stop_waiting()
        if request is not None:
            request.answer_delayed(self._answer)

    def _stop_waiting(self) -> None:
        self._waiting = None
        self.node.deadlines.discard(self, self._ticket)
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None

    def _answer(self) -> FetchResponse:
        told: dict[UUID, list[PartitionData]] = {}
        left_bytes = self._max_bytes
        for target in list(self._news):
            if left_bytes <= 0:
                break  # The others come first in the next answer.
            data = target.tell(left_bytes)
            del self._news[target]
            self._quiet_news.pop(target, None)
            told.setdefault(target.topic_id, []).append(data)
            left_bytes -= len(data.records or b"")
        quiet, self._quiet_news = self._quiet_news, {}
        for target in quiet:
            if target not in self._news and (offsets := target.tell_offsets()) is not None:
                told.setdefault(target.topic_id, []).append(offsets)
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        self._earlier_marks, self._marks = {**self._earlier_marks, **self._marks}, {}
        for target in unconfirmed:
            partition = target.partition
            if partition is not None and partition.replicas is not None:
                self._marks[target] = (partition, partition.replicas.last_ticket)
        return FetchResponse(
            session_id=self.id,
            responses=[FetchableTopicResponse(topic_id=topic_id, partitions=some) for topic_id, some in told.items()],
        )


class _Target:
    """One partition that a follower copies: ``partitions.Follower``."""

    __slots__ = (
        "_pending",
        "_sent_bytes",
        "_told_high_watermark",
        "asked",
        "is_told",
        "partition",
        "session",
        "topic_id",
    )

    def __init__(self, session: _Session, topic_id: UUID) -> None:
        self.session = session
        self.topic_id = topic_id
        self.asked = FetchPartition()
        self.partition: Partition | None = None
        self._pending: PartitionData | None = None  # What is to be told in place of records.
        self.is_told = False
        """Whether the follower has been sent records or a refusal, and says next how far it has come."""
        self._told_high_watermark: int | None = None  # Of this term.
        self._sent_bytes = 0  # The records that the last answer had.

    def take(self, asked: FetchPartition, now_ms: float) -> None:
        """The follower's log ends at the offset asked for, under the term that it names."""
        session = self.session
        refused_bytes = self._sent_bytes if asked.fetch_offset == self.asked.fetch_offset else 0
        self.asked = asked
        self._pending, self.is_told, self._sent_bytes = None, False, 0
        session.forget_news(self)
        try:
            partition = self._led()
            if partition is None:
                self.unbind()
                return  # The follower knows a newer term than this broker: it is told when this broker knows it.
            self._bind(partition)
            if asked.last_fetched_epoch is not None:
                self._pending = diverging(partition, asked.last_fetched_epoch, asked.fetch_offset)
            if self._pending is None:
                _check_range(partition, asked.fetch_offset)
                partition.log_starts_at(session.replica, asked.log_start_offset)
                partition.fetched(session.replica, asked.fetch_offset, broker_epoch=session.broker_epoch, now_ms=now_ms)
                if partition.replicas is not None and session.replica not in partition.replicas.isr:
                    session.sessions.on_progress(partition)
                if refused_bytes:
                    session.sessions.refused(partition, asked.fetch_offset, refused_bytes)
        except KafkaError as error:
            self._pending = self._with_offsets(self._refused(error.code))
        if self._pending is not None or self._has_more() or self._told_high_watermark is None:
            session.has_news(self)
        elif self.partition is not None and self._told_high_watermark != self.partition.log.high_watermark:
            session.has_quiet_news(self)

    def _led(self) -> Partition | None:
        """The partition under the term that the follower names; ``None`` if this broker does not know that term yet.

        Raises KafkaError.
        """
        node, asked = self.session.node, self.asked
        topic = node.image.topics_by_id.get(self.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = node.partitions.get(topic.name, asked.partition)
        if partition is not None:
            known_epoch = partition.leader_epoch
        elif asked.partition < len(topic.partitions):
            known_epoch = topic.partitions[asked.partition].leader_epoch
        else:
            return None
        wanted_epoch = asked.current_leader_epoch
        if wanted_epoch is not None and (
            wanted_epoch > known_epoch or (partition is None and wanted_epoch == known_epoch)
        ):
            return None
        if partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if wanted_epoch is None or wanted_epoch < known_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if self.session.replica not in topic.partitions[asked.partition].replicas:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def _bind(self, partition: Partition) -> None:
        if self.partition is not partition:
            self.unbind()
            self.partition = partition
            self._told_high_watermark = None
            partition.followers[self.session.replica] = self
        if partition.has_unconfirmed:
            self.session.confirm(self)

    def unbind(self) -> None:
        partition, self.partition = self.partition, None
        if partition is not None and partition.followers.get(self.session.replica) is self:
            del partition.followers[self.session.replica]

    # What the partition says (``Follower``)

    def has_news(self) -> None:
        if not self.is_told and self._pending is None:
            self.session.has_news(self)

    def high_watermark_moved(self) -> None:
        self.session.has_quiet_news(self)

    def confirm(self) -> None:
        self.session.confirm(self)

    def term_ended(self) -> None:
        self.session.forget_news(self)
        self.unbind()
        # The follower learns from the image who leads now; this says that waiting here is of no use.
        self._pending = self._refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.session.has_news(self)

    # Answers

    def _has_more(self) -> bool:
        return self.partition is not None and self.asked.fetch_offset < self.partition.log.log_end_offset

    def tell(self, max_bytes: int) -> PartitionData:
        """What the follower is to be told: records, at least one batch, if there are some."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self.is_told = True
            return pending
        partition = self.partition
        if partition is None or not self._has_more():
            return self._offsets(b"")
        limit = min(self.asked.partition_max_bytes, max_bytes)
        try:
            records = partition.log.read_copy(self.asked.fetch_offset, limit).records
        except (KafkaError, StorageError) as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR
            if code is ErrorCode.CORRUPT_MESSAGE:
                self.session.sessions.refused(partition, self.asked.fetch_offset, limit)
            self.is_told = True
            return self._refused(code)
        self.is_told, self._sent_bytes = True, len(records)
        return self._offsets(records)

    def tell_offsets(self) -> PartitionData | None:
        partition = self.partition
        if partition is None or self._told_high_watermark == partition.log.high_watermark:
            return None
        return self._offsets(b"")

    def _refused(self, code: ErrorCode) -> PartitionData:
        return PartitionData(
            partition_index=self.asked.partition, error_code=code, aborted_transactions=None, records=b""
        )

    def _offsets(self, records: bytes) -> PartitionData:
        self._told_high_watermark = None if self.partition is None else self.partition.log.high_watermark
        return self._with_offsets(
            PartitionData(partition_index=self.asked.partition, aborted_transactions=None, records=records)
        )

    def _with_offsets(self, data: PartitionData) -> PartitionData:
        if self.partition is not None:
            log = self.partition.log
            data.high_watermark, data.log_start_offset = log.high_watermark, log.log_start_offset
        return data


def _check_range(partition: Partition, offset: int) -> None:
    log = partition.log
    if log.offline is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)


def _ignored(partition: Partition) -> None:
    """The callback that stands here until ``Replicas`` sets its own."""


def _unwatched(replica: int) -> None:
    """The callback that stands here until ``Replicas`` sets its own."""
