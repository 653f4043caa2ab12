"""The leader's side of copying: one session for each follower, with all partitions that it copies from this broker.

A follower has one Fetch under way at a time, or two if the first one waits and there are partitions to add. A Fetch
names the partitions whose position has changed. Its response has the partitions with something to send: records, an
error, a diverging epoch, or moved offsets. A Fetch for which there is nothing to send waits in the session until there
is, or until the next Fetch arrives.

    named in a Fetch --> position recorded --> to send? --> read, or error, or diverging epoch --> sent --> named again

The laws:

- A position counts for the high watermark only under the leader epoch of this term, only from a follower whose
  registration is the one in the image, and only if its log does not diverge from the leader's.
- A Fetch replies to all responses of its session that had arrived at the follower when it was sent. So it confirms the
  term for all tickets that were asked for before those responses were sent, for all partitions of the session that the
  follower still follows under this term. A Fetch that was sent while another one was under way has ``min_bytes`` 0: the
  response to that one had not arrived.
- If the follower names a newer leader epoch than this broker knows, the partition is not refused: its answer waits for
  the image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
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

# How many bytes of records a response may have, so that it occupies neither side for long.
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024

# How many partitions a response may have records of: reading them takes some 20 us each, and writing them longer.
ANSWER_PARTITIONS_MAX: Final = 1000

_Key = tuple[UUID, int]


class FollowerSessions:
    """The sessions of all followers: for each, its newest one."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop, *, random: Random) -> None:
        self._node = node
        self._loop = loop
        self._random = random
        self._sessions: dict[int, _Session] = {}
        self.on_progress: Callable[[Partition], None] = _ignored
        """Called with a partition when a follower that is not in its in-sync set has made progress."""
        self.on_lost: Callable[[int], None] = _unwatched
        """Called with the id of a follower whose connection is lost, whether its last Fetch was answered or not."""
        node.partitions.on_add.append(self._term_begins)

    def fetch(self, request: Request, message: FetchRequest) -> FetchResponse | None:
        """Serve a follower's Fetch. Returns the response, or None if it is sent once there is something to send."""
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
        """Look for damage in the leader's own log. Called when a follower asks again for what it was sent, or when
        reading for it failed."""
        reason = partition.log.verify_copy(offset, max_bytes)
        if reason is None:
            return
        if partition.others_are_in_sync:
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
    """The session of one follower: the partitions that it copies from this broker, and its Fetch while that waits."""

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
        """The connection of the last Fetch."""
        self._loop = loop
        self._targets: dict[_Key, _Target] = {}
        self._with_data: dict[_Target, None] = {}
        self._moved_offsets: dict[_Target, None] = {}  # Sent with the next response, but causes none.
        self._unconfirmed: dict[_Target, None] = {}
        # The tickets that a Fetch confirms: those of the last response, if it replies to that, and of earlier ones.
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
        self.next_epoch = 1 if self.next_epoch == INT32_MAX else self.next_epoch + 1
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
        # The first Fetch is answered at once: before that, the follower does not know the id and can add no partition.
        if message.session_epoch == 0 or self._with_data or self._unconfirmed or self._marks:
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
        """Called when the follower's connection is lost. It begins a new session on the next connection."""
        self._stop_waiting()

    def end(self) -> None:
        request = self._waiting
        self._stop_waiting()
        if request is not None:  # Later responses on its connection wait for this one.
            request.answer_delayed(lambda: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        for target in self._targets.values():
            self._forget(target)
        self._targets.clear()

    def term_begins(self, partition: Partition) -> None:
        target = self._targets.get((partition.log.topic_id, partition.log.partition))
        if target is None or target.is_sent:
            return  # A follower that was refused names the partition again after a pause.
        if target.asked.current_leader_epoch == partition.leader_epoch:
            target.take(target.asked, self.node.clock.monotonic_ms())

    # Called by targets

    def data_available(self, target: _Target) -> None:
        self._with_data[target] = None
        self._answer_soon()

    def offsets_moved(self, target: _Target) -> None:
        self._moved_offsets[target] = None

    def confirm(self, target: _Target) -> None:
        self._unconfirmed[target] = None
        self._answer_soon()

    def forget_changes(self, target: _Target) -> None:
        self._with_data.pop(target, None)
        self._moved_offsets.pop(target, None)

    def _forget(self, target: _Target) -> None:
        target.unbind()
        self.forget_changes(target)
        self._unconfirmed.pop(target, None)
        self._marks.pop(target, None)
        self._earlier_marks.pop(target, None)

    # Answers

    def _answer_soon(self) -> None:
        """Answer the waiting Fetch at the end of this turn of the event loop, with all results until then."""
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
        results: dict[UUID, list[PartitionData]] = {}
        left_bytes = self._max_bytes
        for target in list(islice(self._with_data, ANSWER_PARTITIONS_MAX)):
            if left_bytes <= 0:
                break  # The others are first in the next response.
            data = target.next_result(left_bytes)
            del self._with_data[target]
            self._moved_offsets.pop(target, None)
            results.setdefault(target.topic_id, []).append(data)
            left_bytes -= len(data.records or b"")
        moved, self._moved_offsets = self._moved_offsets, {}
        for target in moved:
            if target not in self._with_data and (offsets := target.moved_offsets()) is not None:
                results.setdefault(target.topic_id, []).append(offsets)
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        self._earlier_marks, self._marks = {**self._earlier_marks, **self._marks}, {}
        for target in unconfirmed:
            partition = target.partition
            if partition is not None and partition.replicas is not None:
                self._marks[target] = (partition, partition.replicas.last_ticket)
        return FetchResponse(
            session_id=self.id,
            responses=[
                FetchableTopicResponse(topic_id=topic_id, partitions=some) for topic_id, some in results.items()
            ],
        )


class _Target:
    """One partition in the session of a follower. Implements ``partitions.Follower``."""

    __slots__ = (
        "_pending",
        "_sent_bytes",
        "_sent_high_watermark",
        "asked",
        "is_sent",
        "partition",
        "session",
        "topic_id",
    )

    def __init__(self, session: _Session, topic_id: UUID) -> None:
        self.session = session
        self.topic_id = topic_id
        self.asked = FetchPartition()
        self.partition: Partition | None = None
        self._pending: PartitionData | None = None  # An error or a diverging epoch, to be sent in place of records.
        self.is_sent = False
        """Whether records or a refusal were sent. The follower must name the partition again before more is sent."""
        self._sent_high_watermark: int | None = None  # The last one that was sent in this term.
        self._sent_bytes = 0  # The size of the records in the last response.

    def take(self, asked: FetchPartition, now_ms: float) -> None:
        """Record the follower's position: its log ends at the fetch offset, under the leader epoch that it names."""
        session = self.session
        refused_bytes = self._sent_bytes if asked.fetch_offset == self.asked.fetch_offset else 0
        self.asked = asked
        self._pending, self.is_sent, self._sent_bytes = None, False, 0
        session.forget_changes(self)
        try:
            partition = self._led()
            if partition is None:
                self.unbind()
                return  # The follower knows a newer term: it is answered when this broker knows that term too.
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
        if self._pending is not None or self._has_more() or self._sent_high_watermark is None:
            session.data_available(self)
        elif self.partition is not None and self._sent_high_watermark != self.partition.log.high_watermark:
            session.offsets_moved(self)

    def _led(self) -> Partition | None:
        """Return the partition, if the term is the one that the follower names; ``None`` if this broker does not know
        that term yet.

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
            self._sent_high_watermark = None
            partition.followers[self.session.replica] = self
        if partition.has_unconfirmed:
            self.session.confirm(self)

    def unbind(self) -> None:
        partition, self.partition = self.partition, None
        if partition is not None and partition.followers.get(self.session.replica) is self:
            del partition.followers[self.session.replica]

    # Called by the partition (``Follower``)

    def data_available(self) -> None:
        if not self.is_sent and self._pending is None:
            self.session.data_available(self)

    def high_watermark_moved(self) -> None:
        self.session.offsets_moved(self)

    def confirm(self) -> None:
        self.session.confirm(self)

    def position_unknown(self) -> None:
        if not self.is_sent and self._pending is None:  # Else the follower names the partition again anyway.
            self._pending = self._refused(ErrorCode.INELIGIBLE_REPLICA)
            self.session.data_available(self)

    def term_ended(self) -> None:
        self.session.forget_changes(self)
        self.unbind()
        # The follower learns the new leader from the image; with this error it stops waiting here.
        self._pending = self._refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.session.data_available(self)

    # Answers

    def _has_more(self) -> bool:
        return self.partition is not None and self.asked.fetch_offset < self.partition.log.log_end_offset

    def next_result(self, max_bytes: int) -> PartitionData:
        """Return what is sent to the follower: an error, a diverging epoch, or records, at least one batch if there are
        any."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self.is_sent = True
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
            self.is_sent = True
            return self._refused(code)
        self.is_sent, self._sent_bytes = True, len(records)
        return self._offsets(records)

    def moved_offsets(self) -> PartitionData | None:
        partition = self.partition
        if partition is None or self._sent_high_watermark == partition.log.high_watermark:
            return None
        return self._offsets(b"")

    def _refused(self, code: ErrorCode) -> PartitionData:
        return PartitionData(
            partition_index=self.asked.partition, error_code=code, aborted_transactions=None, records=b""
        )

    def _offsets(self, records: bytes) -> PartitionData:
        self._sent_high_watermark = None if self.partition is None else self.partition.log.high_watermark
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
    """The ``on_progress`` until ``Replicas`` sets its own."""


def _unwatched(replica: int) -> None:
    """The ``on_lost`` until ``Replicas`` sets its own."""
