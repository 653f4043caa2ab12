"""Fetching ahead: Fetch requests are kept in flight so that records are ready when the application takes them.

One Fetch at a time is in flight to each broker, for all partitions that it leads and that want more. A partition wants
more while fewer than two fetches of it are ready. What is ready and what is in flight stay together within
fetch.max.bytes, which the brokers share; only a batch that is larger than its limit comes whole. So memory is bounded,
and the next records travel while the last ones are being processed. What is held for paused partitions is kept and not
counted: it is no more than two fetches for each, and must not stop the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from semel.client.config.consumer import ConsumerConfig, IsolationLevel
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import Connections, Route
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.retry import Retry
from semel.client.machine.consumer.fetch_session import SESSIONS_SINCE, Asked, FetchSessionHandler
from semel.client.machine.consumer.fetched import DecodeRows, FetchedRecords, Rows
from semel.client.machine.consumer.positions import Position, Positions
from semel.client.machine.consumer.truncation import TruncationCheck
from semel.client.machine.producer.produce_errors import OUTDATED_METADATA
from semel.client.values import ConsumerRecord
from semel.clock import NEVER
from semel.errors import DecodeError, ErrorCode, Family, client_error, family_of, named
from semel.types import ZERO_UUID, Address, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData

TOPIC_IDS_SINCE: Final = 13

_AHEAD_MAX: Final = 2
_SESSION_ENDED: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class _Asked(NamedTuple):
    """One partition of a Fetch that is in flight."""

    position: Position
    generation: int
    fetch_offset: int
    leader_epoch: int | None


class Fetcher:
    """Sends Fetch requests and holds the fetched records until they are taken.

    ``out_of_range`` and ``errors`` collect what the consumer must decide about. Positions have their generation with
    them, because the application may seek before that.
    """

    def __init__(
        self, config: ConsumerConfig, positions: Positions, connections: Connections, metadata: Metadata, random: Random
    ) -> None:
        self._config = config
        self._positions = positions
        self._connections = connections
        self._metadata = metadata
        self._retry = Retry.of(config.client, random)
        self._under_way: dict[Route, int] = {}
        """The brokers with a Fetch in flight, and how many bytes its response may have."""
        self._sessions: dict[Route, FetchSessionHandler] = {}
        self._ready: deque[FetchedRecords] = deque()
        self._rack_id = config.client_rack
        self.out_of_range: list[tuple[Position, int]] = []
        self.errors: dict[TopicPartition, Exception] = {}
        self._truncation = TruncationCheck(
            config,
            positions,
            connections,
            metadata,
            random,
            errors=self.errors,
            out_of_range=self.out_of_range,
        )

    @property
    def has_records(self) -> bool:
        return any(
            self._is_current(chunk) and not self._positions[chunk.topic_partition].is_paused for chunk in self._ready
        )

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return up to ``count`` records and move the positions past them."""
        taken: list[ConsumerRecord] = []
        for chunk, position in self._takeable():
            wanted = count - len(taken)
            records = chunk.take(wanted)
            if records:
                position.offset, position.offset_epoch = records[-1].offset + 1, chunk.taken_epoch
                taken += records
            if len(records) == wanted:
                break
            self._taken_whole(chunk, position)
        return taken

    def take_decoded(self) -> ConsumerRecord | None:
        """Return the record that ``take`` would return first, if it is already decoded, and move its position."""
        for chunk in self._ready:
            position = self._positions.get(chunk.topic_partition)
            if position is not None and not position.is_paused and position.generation == chunk.generation:
                record = chunk.take_decoded()
                if record is not None:
                    position.offset, position.offset_epoch = record.offset + 1, chunk.taken_epoch
                return record
        return None

    def take_rows(self, count: int, decode: DecodeRows) -> list[tuple[TopicPartition, Rows]]:
        """Return up to ``count`` records as columns and move the positions past them."""
        taken: list[tuple[TopicPartition, Rows]] = []
        for chunk, position in self._takeable():
            parts = chunk.take_rows(count, decode)
            taken += ((chunk.topic_partition, part) for part in parts)
            if parts:
                position.offset, position.offset_epoch = chunk.taken_offset + 1, chunk.taken_epoch
                count -= sum(part.num_rows for part in parts)
            if not count:
                break
            self._taken_whole(chunk, position)
        return taken

    def _takeable(self) -> Iterator[tuple[FetchedRecords, Position]]:
        for chunk in tuple(self._ready):
            position = self._positions.get(chunk.topic_partition)
            if position is not None and not position.is_paused and position.generation == chunk.generation:
                yield chunk, position

    def _taken_whole(self, chunk: FetchedRecords, position: Position) -> None:
        self._ready.remove(chunk)
        if chunk.error is None:
            position.offset, position.offset_epoch = chunk.next_offset, chunk.last_epoch
        else:
            self.errors[chunk.topic_partition] = chunk.error
            assert position.offset is not None
            position.seek(position.offset, position.offset_epoch)  # Fetched again: the next copy may be sound.

    def poll(self, now_ms: float) -> None:
        """Send a Fetch to every broker that has none in flight and whose partitions want more."""
        self._drop_stale()
        self._truncation.poll(now_ms)
        ahead = Counter(chunk.topic_partition for chunk in self._ready)
        by_route: dict[Route, list[Position]] = {}
        leaders: set[int] = set()
        for position in self._positions:
            partition = self._metadata.view.partition(position.topic_partition)
            if partition is not None and partition.leader is not None:
                leaders.add(partition.leader)
            if not self._wants_more(position, ahead[position.topic_partition], now_ms):
                continue
            if partition is None or partition.leader is None:
                self._metadata.outdated()
            elif Route(partition.leader) not in self._under_way and not position.has_to_be_checked(
                partition.leader_epoch
            ):
                by_route.setdefault(Route(partition.leader), []).append(position)
        for route, positions in by_route.items():
            size_bytes = self._may_bring(len(positions), len(leaders))
            if size_bytes is not None and self._connections.ready(route, now_ms):
                self._fetch(route, positions, size_bytes, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        return min((position.retry_ms for position in self._positions if position.retry_ms > now_ms), default=NEVER)

    def _is_current(self, chunk: FetchedRecords) -> bool:
        position = self._positions.get(chunk.topic_partition)
        return position is not None and position.generation == chunk.generation

    def _drop_stale(self) -> None:
        """Drop what was fetched before a seek, or for a partition that is no longer assigned."""
        if not all(map(self._is_current, self._ready)):
            self._ready = deque(chunk for chunk in self._ready if self._is_current(chunk))

    def _wants_more(self, position: Position, ahead: int, now_ms: float) -> bool:
        return (
            position.fetch_offset is not None
            and not position.fetching
            and not position.is_paused
            and ahead < _AHEAD_MAX
            and now_ms >= position.retry_ms
        )

    def _may_bring(self, partition_count: int, broker_count: int) -> int | None:
        """Return how many bytes one more Fetch may bring; ``None`` if it must wait until records were taken."""
        limit = self._config.fetch_max_bytes
        used = sum(self._under_way.values()) + sum(
            chunk.size_bytes for chunk in self._ready if not self._positions[chunk.topic_partition].is_paused
        )
        if used >= limit and used > 0:
            return None
        share = max(limit // broker_count, 1)
        return min(share, limit - used, partition_count * max(self._config.max_partition_fetch_bytes, 1))

    def _fetch(self, route: Route, positions: Sequence[Position], size_bytes: int, now_ms: float) -> None:
        view = self._metadata.view
        asked: dict[TopicPartition, _Asked] = {}
        for position in positions:
            assert position.fetch_offset is not None
            partition = view.partition(position.topic_partition)
            epoch = None if partition is None else partition.leader_epoch
            asked[position.topic_partition] = _Asked(position, position.generation, position.fetch_offset, epoch)
            position.fetching = True
        unidentified = any(view.topic_id(topic) == ZERO_UUID for topic, _ in asked)
        session = self._sessions.setdefault(route, FetchSessionHandler())
        is_full = True

        def build(version: int) -> FetchRequest:
            nonlocal is_full
            contents = session.request(
                {partition: self._ask(one, view.topic_id(partition.topic)) for partition, one in asked.items()},
                version=version,
                uses_topic_ids=version >= TOPIC_IDS_SINCE,
            )
            is_full = not contents.session_epoch
            return FetchRequest(
                max_wait_ms=self._config.fetch_max_wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                max_bytes=size_bytes,
                isolation_level=self._config.isolation_level,
                session_id=contents.session_id,
                session_epoch=contents.session_epoch,
                topics=contents.topics,
                forgotten_topics_data=contents.forgotten_topics_data,
                rack_id=self._rack_id,
            )

        def answered(response: Any, version: int, at_ms: float) -> None:
            del self._under_way[route]
            names = view.topic_names if version >= TOPIC_IDS_SINCE else None
            is_sound = session.answered(response) if version >= SESSIONS_SINCE else True
            self._answered(asked, response, names, at_ms, is_sound=is_sound, is_full=is_full)

        def lost(reason: str, at_ms: float) -> None:
            del self._under_way[route]
            session.lost()
            self._metadata.outdated()
            self._later(asked.values(), at_ms)

        self._under_way[route] = size_bytes
        version_max = TOPIC_IDS_SINCE - 1 if unidentified else None
        call = Call(ApiKey.FETCH, build=build, answered=answered, lost=lost, version_max=version_max)
        self._connections.send(route, call, now_ms)

    def _ask(self, one: _Asked, topic_id: UUID) -> Asked:
        return Asked(
            topic_id,
            FetchPartition(
                one.position.topic_partition.partition,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.fetch_offset,
                partition_max_bytes=self._config.max_partition_fetch_bytes,
            ),
        )

    def _answered(
        self,
        asked: Mapping[TopicPartition, _Asked],
        response: FetchResponse,
        names: Mapping[UUID, str] | None,
        now_ms: float,
        *,
        is_sound: bool,
        is_full: bool,
    ) -> None:
        brokers = {node.node_id: Address(node.host, node.port) for node in response.node_endpoints}
        unanswered = dict(asked)
        refused: list[_Asked] = []
        if is_sound:
            for topic in response.responses:
                name = topic.topic if names is None else names.get(topic.topic_id, "")
                for data in topic.partitions:
                    one = unanswered.pop(TopicPartition(name, data.partition_index), None)
                    if one is None or one.position.generation != one.generation:
                        continue
                    one.position.fetching = False
                    if data.error_code != ErrorCode.NONE:
                        self._partition_refused(one.position, data, brokers, now_ms)
                        refused.append(one)
                    elif not self._partition_answered(one, data):
                        refused.append(one)
        elif response.error_code in OUTDATED_METADATA:
            self._metadata.outdated()
        # In an incremental response, a partition that is missing has nothing new. An ended session begins again at
        # once.
        if not is_full and (is_sound or response.error_code in _SESSION_ENDED):
            for one in unanswered.values():
                if one.position.generation == one.generation:
                    one.position.fetching = False
        else:
            refused += unanswered.values()
        if refused:
            self._later(refused, now_ms)
        else:
            self._retry = self._retry.succeeded()

    def _partition_answered(self, one: _Asked, data: PartitionData) -> bool:
        """Store the answer about one partition. Returns ``False`` if its records are damaged: to be fetched again."""
        position = one.position
        position.high_watermark, position.last_stable_offset = data.high_watermark, data.last_stable_offset
        position.log_start_offset = data.log_start_offset
        position.checked_epoch = one.leader_epoch
        if data.preferred_read_replica is not None:
            self._rack_id = ""  # Brokers send a client that names its rack to a replica there; this one reads leaders.
        if data.records is None or not len(data.records):
            return True
        return self._keep(one, data)

    def _partition_refused(
        self, position: Position, data: PartitionData, brokers: Mapping[int, Address], now_ms: float
    ) -> None:
        code = data.error_code
        leader, epoch = data.current_leader.leader_id, data.current_leader.leader_epoch
        if leader is not None and epoch is not None:
            self._metadata.leader_moved(position.topic_partition, leader, epoch, brokers, now_ms)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Fetched records before this offset may not be taken yet; then it is fetched again, with the same error.
            if position.offset == position.fetch_offset:
                self.out_of_range.append((position, position.generation))
            return
        if code in OUTDATED_METADATA:
            self._metadata.outdated()
        if family_of(code) is not Family.RETRIABLE:
            text = f"{position.topic_partition} cannot be read: the broker answered {named(code).name}"
            self.errors[position.topic_partition] = client_error(code, text)

    def _keep(self, one: _Asked, data: PartitionData) -> bool:
        assert data.records is not None
        position = one.position
        committed_only = self._config.isolation_level is IsolationLevel.READ_COMMITTED
        try:
            chunk = FetchedRecords(
                position.topic_partition,
                position.generation,
                # A copy: one slow partition would otherwise keep the whole response in memory, with the records of all
                # others.
                bytes(data.records),
                fetch_offset=one.fetch_offset,
                aborted=data.aborted_transactions if committed_only else None,
                check_crcs=self._config.check_crcs,
            )
        except DecodeError as error:
            self.errors[position.topic_partition] = error
            return False
        position.fetch_offset, position.fetch_epoch = chunk.next_offset, chunk.last_epoch
        self._positions.served(position)
        self._ready.append(chunk)
        return True

    def _later(self, asked: Iterable[_Asked], now_ms: float) -> None:
        """Retry all these at the same time; otherwise the first one's Fetch makes the others wait for its response."""
        self._retry = self._retry.failed(now_ms)
        for one in asked:
            if one.position.generation == one.generation:
                one.position.fetching = False
                one.position.retry_ms = self._retry.due_ms
