"""The follower's side of copying (Kafka's ReplicaFetcherThread): the partitions copied from one other broker.

    send a Fetch --> response --> append, truncate, or wait --> all that was appended is synced --> send the next Fetch

The offset in a Fetch is the end of what is on this broker's disk, so the next Fetch acknowledges the last response. It
names the partitions whose position has changed; the leader remembers the others (``follower_sessions``). While a Fetch
waits at the leader, one more may be sent, so that a partition that this broker begins to follow need not wait for the
first one to end.

The law: a response is used only in the term in which the Fetch named its partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final
from uuid import UUID

from semel.broker.cluster.peers import Peers, Purpose
from semel.broker.node import Node
from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log.partition_log import PartitionLog
from semel.log.truncations import Failures
from semel.replication.follower import (
    Append,
    FetchPosition,
    PartitionAnswer,
    RestartAt,
    TruncateTo,
    Wait,
    check_copied,
    decide,
    position,
)
from semel.types import INT32_MAX
from semel.wire.apis import ApiKey
from semel.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

logger = logging.getLogger("semel.broker")

RETRY_MS: Final = 50
"""The pause after a partition was refused, or after a leader did not answer."""
NO_ROOM_RETRY_MS: Final = 1000
PARTITIONS_PER_FETCH: Final = 2000
"""How many partitions a Fetch names at most: the leader takes some 10 us for each, in one turn of its event loop."""

_Key = tuple[UUID, int]


class CopiedPartition:
    """A partition that this broker follows, under one term of its leader."""

    __slots__ = ("asked", "asked_in", "copier", "is_changing", "is_over", "leader_epoch", "log", "pending", "retry")

    def __init__(self, log: PartitionLog, leader_epoch: int) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.copier: Copier | None = None
        self.asked: FetchPosition | None = None
        """The position with which a Fetch of this session named it last. Results belong to this position."""
        self.asked_in = 0
        """The number of the Fetch in the session that named it last. Responses to earlier ones are ignored."""
        self.is_changing = False  # Whether its log is being truncated.
        self.is_over = False
        self.pending: Append | None = None  # To be appended once its log begins at the first batch.
        self.retry: asyncio.TimerHandle | None = None

    @property
    def key(self) -> _Key:
        return self.log.topic_id, self.log.partition

    @property
    def is_paused(self) -> bool:
        return self.is_changing or self.retry is not None

    def durable(self, log: PartitionLog) -> None:
        """The log's ``on_durable``."""
        if self.copier is not None:
            self.copier.durable(self)


class Copier:
    """Copies all partitions that this broker follows from one leader.

    ``served`` is called with a partition when its leader has answered without an error, ``failed`` when its log is
    offline, and ``changing`` when a truncation of its log begins or ends.
    """

    def __init__(
        self,
        node: Node,
        peers: Peers,
        loop: asyncio.AbstractEventLoop,
        leader: int,
        *,
        served: Callable[[CopiedPartition], None],
        failed: Callable[[CopiedPartition], None],
        changing: Callable[[CopiedPartition], None],
    ) -> None:
        self._node = node
        self._peers = peers
        self._loop = loop
        self.leader = leader
        self._served = served
        self._failed = failed
        self._changing = changing
        self._copied: dict[_Key, CopiedPartition] = {}
        self._to_name: dict[CopiedPartition, None] = {}
        self._to_forget: dict[_Key, None] = {}
        self._unsynced: dict[CopiedPartition, None] = {}
        self._truncate: dict[CopiedPartition, int] = {}  # By one response: they are one job of a worker.
        self._restart: dict[CopiedPartition, int] = {}
        self._moved_starts: dict[CopiedPartition, None] = {}
        self._persisting: asyncio.Task[None] | None = None
        self._session_id = 0
        self._session_epoch = (
            0  # The number of the next Fetch in the session. It does not wrap (``_epoch_on_the_wire``).
        )
        self._session_number = 0  # Responses of an abandoned session are ignored.
        self._under_way = 0
        self._scheduled: asyncio.Handle | None = None
        self._is_closed = False

    def follow(self, copied: CopiedPartition) -> None:
        """Copy this partition from now on."""
        copied.copier = self
        copied.log.on_durable = copied.durable
        copied.log.follow()
        self._copied[copied.key] = copied
        self._to_forget.pop(copied.key, None)
        if copied.log.durable_offset < copied.log.log_end_offset:
            # Appended by this broker as the leader, or copied from another leader just before.
            self._unsynced[copied] = None
            copied.log.sync_unawaited()
        self._name(copied)

    def unfollow(self, copied: CopiedPartition) -> None:
        """Stop copying this partition: its term is over."""
        copied.is_over = True
        copied.copier = None
        copied.log.on_durable = _ignored
        if copied.retry is not None:
            copied.retry.cancel()
        if self._copied.get(copied.key) is copied:
            del self._copied[copied.key]
            if copied.asked is not None:
                self._to_forget[copied.key] = None
        self._to_name.pop(copied, None)
        if self._unsynced.pop(copied, self) is None:
            self._send_soon()

    def close(self) -> None:
        self._is_closed = True
        if self._persisting is not None:
            self._persisting.cancel()
        for copied in list(self._copied.values()):
            self.unfollow(copied)
        if self._scheduled is not None:
            self._scheduled.cancel()

    def durable(self, copied: CopiedPartition) -> None:
        """Called when more of a log is synced, or when it went offline."""
        log = copied.log
        if log.offline is not None:
            self.unfollow(copied)
            self._failed(copied)
        elif log.durable_offset >= log.log_end_offset and self._unsynced.pop(copied, self) is None:
            self._send_soon()

    # Requests

    def _name(self, copied: CopiedPartition) -> None:
        """Name the partition, with its position, in the next Fetch. A paused one is named when its pause has ended."""
        if not copied.is_over and not copied.is_paused:
            self._to_name[copied] = None
            self._send_soon()

    def _send_soon(self) -> None:
        """Send a Fetch at the end of this turn of the event loop, with all partitions that it names."""
        if self._scheduled is None and not self._unsynced and not self._is_closed:
            self._scheduled = self._loop.call_soon(self._send)

    def _send_later(self, delay_ms: float) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
        self._scheduled = self._loop.call_later(delay_ms / 1000, self._send)

    def _send(self) -> None:
        self._scheduled = None
        has_changes = bool(self._to_name or self._to_forget)
        if self._is_closed or self._unsynced or not (self._copied or self._to_forget):
            return
        if self._under_way > (1 if has_changes and self._session_id else 0):  # No id yet: the session is being begun.
            return
        if self._session_epoch == 0:
            self._to_forget.clear()
            self._to_name = dict.fromkeys(copied for copied in self._copied.values() if not copied.is_paused)
            if not self._to_name:
                return
        request = self._request()
        number, fetch = self._session_number, self._session_epoch
        self._session_epoch += 1
        self._under_way += 1

        def answered(response: FetchResponse | None) -> None:
            if number == self._session_number and not self._is_closed:
                self._under_way -= 1
                self._answered(response, fetch)

        self._peers.ask(self.leader, Purpose.COPYING, ApiKey.FETCH, request, answered)

    def _request(self) -> FetchRequest:
        config = self._node.config
        named_now = list(islice(self._to_name, PARTITIONS_PER_FETCH))
        for copied in named_now:
            del self._to_name[copied]
        forgotten, self._to_forget = self._to_forget, {}
        topics: dict[UUID, FetchTopic] = {}
        for copied in named_now:
            at = copied.asked = _persisted_position(copied.log)
            copied.asked_in = self._session_epoch
            topic_id, index = copied.key
            topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[])).partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=copied.leader_epoch,
                    fetch_offset=at.offset,
                    last_fetched_epoch=at.last_fetched_epoch,
                    log_start_offset=at.log_start_offset,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
            )
        gone: dict[UUID, ForgottenTopic] = {}
        for topic_id, index in forgotten:
            gone.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
        return FetchRequest(
            replica_state=ReplicaState(config.node_id, self._peers.broker_epoch),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=0 if self._under_way else 1,  # 1: the follower had received all responses of this session.
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=_epoch_on_the_wire(self._session_epoch),
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )

    # Answers

    def _answered(self, response: FetchResponse | None, fetch: int) -> None:
        if response is None or response.error_code:
            self._begin_again()
            return
        self._session_id = response.session_id
        for topic in response.responses:
            for data in topic.partitions:
                copied = self._copied.get((topic.topic_id, data.partition_index))
                if copied is None or copied.asked is None or copied.is_paused:
                    continue
                if copied.asked_in <= fetch:  # Else it was named again, perhaps in another term.
                    self._take(copied, data, copied.asked)
        self._change_logs()
        self._send_soon()

    def _begin_again(self) -> None:
        """Begin a new fetch session: the leader does not know the old one, or could not be reached."""
        self._session_number += 1
        self._session_id = self._session_epoch = self._under_way = 0
        self._to_name.clear()
        for copied in self._copied.values():
            copied.asked = None
        if self._copied:
            self._send_later(RETRY_MS)

    def _take(self, copied: CopiedPartition, data: PartitionData, asked: FetchPosition) -> None:
        diverging = data.diverging_epoch
        log = copied.log
        answer = PartitionAnswer(
            error_code=data.error_code,
            diverging_epoch=None
            if diverging.epoch is None or diverging.end_offset is None
            else (diverging.epoch, diverging.end_offset),
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            records=data.records or b"",
        )
        if not data.error_code:
            self._served(copied)
        match decide(log, answer, asked=asked):
            case Append(restart_at=offset) as append:
                if offset is None:
                    self._append(copied, append)
                else:
                    self._restart[copied], copied.pending = offset, append
            case TruncateTo(offset, loses_committed):
                if loses_committed:
                    logger.error(
                        "%s is cut from %d to %d, below its high watermark %d, as its leader says: an unclean election "
                        "has lost records",
                        log.topic_partition,
                        log.log_end_offset,
                        offset,
                        log.high_watermark,
                    )
                self._truncate[copied] = offset
            case RestartAt(offset, _):
                logger.warning(
                    "%s begins anew at offset %d, where its leader's log starts; it ended at %d",
                    log.topic_partition,
                    offset,
                    log.log_end_offset,
                )
                self._restart[copied] = offset
            case Wait(code):
                if code:
                    self._retry(copied, RETRY_MS)
                else:
                    self._name(copied)

    def _append(self, copied: CopiedPartition, append: Append) -> None:
        log = copied.log
        if append.records:
            try:
                sound = check_copied(
                    append.records,
                    next_offset=log.log_end_offset,
                    last_epoch=log.latest_epoch,
                    leader_epoch=copied.leader_epoch,
                )
                log.append_copied(sound.records, now_ms=self._node.clock.now_ms())
            except (DecodeError, KafkaError) as error:
                self._refused(copied, error)
                return
            if log.durable_offset < log.log_end_offset:
                self._unsynced[copied] = None
            self._name(copied)
        log.followed(high_watermark=append.high_watermark, log_start_offset=append.log_start_offset)
        if copied.asked is None or log.log_start_offset > copied.asked.log_start_offset:
            self._tell_log_start(copied)

    def _tell_log_start(self, copied: CopiedPartition) -> None:
        """Send the log start to the leader once it is on disk: DeleteRecords waits for that."""
        if self._persisting is None:
            self._persisting = self._loop.create_task(self._persist_log_starts())
        self._moved_starts[copied] = None

    async def _persist_log_starts(self) -> None:
        try:
            while self._moved_starts:
                await asyncio.sleep(0)  # Together with the others of this response.
                moved, self._moved_starts = self._moved_starts, {}
                try:
                    await self._node.logs.persist_log_starts()
                except OSError as error:
                    logger.error("the log starts that broker %d told could not be written: %s", self.leader, error)
                    await asyncio.sleep(NO_ROOM_RETRY_MS / 1000)
                    self._moved_starts |= dict.fromkeys(copied for copied in moved if not copied.is_over)
                    continue
                for copied in moved:
                    self._name(copied)
        finally:
            self._persisting = None

    def _refused(self, copied: CopiedPartition, error: DecodeError | KafkaError) -> None:
        if copied.is_over:
            return  # The log went offline, and that was logged.
        if isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._retry(copied, NO_ROOM_RETRY_MS)
            return
        logger.error("what broker %d sent of %s cannot be copied: %s", self.leader, copied.log.topic_partition, error)
        self._retry(copied, NO_ROOM_RETRY_MS)

    def _change_logs(self) -> None:
        """Truncate or restart the logs for which this response demands it, on a worker."""
        logs, cleaner = self._node.logs, self._node.cleaner
        truncate, self._truncate = self._truncate, {}
        restart, self._restart = self._restart, {}
        for changing, change in ((truncate, logs.truncate_soon), (restart, logs.restart_soon)):
            for copied in changing:
                copied.is_changing = True
                self._changing(copied)
                if cleaner is not None:
                    cleaner.abort(copied.log)
            if changing:
                wanted = {copied.log: offset for copied, offset in changing.items()}
                change(wanted, partial(self._have_changed, list(changing)))

    def _have_changed(self, changed: Sequence[CopiedPartition], failures: Failures) -> None:
        for copied in changed:
            copied.is_changing = False
            pending, copied.pending = copied.pending, None
            failure = failures.get(copied.log)
            if pending is not None and failure is None and not copied.is_over:
                self._append(copied, pending)
            elif failure is not None:
                logger.error("%s could not be truncated: %s", copied.log.topic_partition, failure)
                self._retry(copied, NO_ROOM_RETRY_MS)
            else:
                self._name(copied)
            self._changing(copied)

    def _retry(self, copied: CopiedPartition, delay_ms: float) -> None:
        if copied.is_over:
            return

        def again() -> None:
            copied.retry = None
            self._name(copied)

        copied.retry = self._loop.call_later(delay_ms / 1000, again)


def _persisted_position(log: PartitionLog) -> FetchPosition:
    """Return the position from which to fetch, with the log start that a crash does not undo.

    The leader answers DeleteRecords when its followers have sent the new log start.
    """
    at = position(log)
    return replace(at, log_start_offset=min(at.log_start_offset, log.persisted_log_start_offset))


def _epoch_on_the_wire(number: int) -> int:
    """Return Kafka's epoch of a Fetch in its session: 0 begins a session, and 1 follows the largest epoch."""
    return (number - 1) % INT32_MAX + 1 if number else 0


def _ignored(log: PartitionLog) -> None:
    """The ``on_durable`` of a log that is not followed any more."""
