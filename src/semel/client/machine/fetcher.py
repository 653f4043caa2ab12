"""Reading ahead: fetches are kept under way so that records are there when they are asked for.

One fetch at a time is under way to each broker, for all partitions it leads that want more. A partition wants more
while it has less than two fetches' worth ready, and all of them together less than fetch.max.bytes: so memory is
bounded, and the next records travel while the last ones are being worked on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from semel.client.config import Address
from semel.client.consumer_config import ConsumerConfig, IsolationLevel
from semel.client.machine.backoff import Backoff
from semel.client.machine.calls import Call
from semel.client.machine.connections import Connections, Route
from semel.client.machine.fetched import FetchedRecords
from semel.client.machine.metadata import Metadata
from semel.client.machine.positions import Position, Positions
from semel.client.machine.produce_errors import OUTDATED_METADATA
from semel.client.values import ConsumerRecord
from semel.errors import DecodeError, ErrorCode, Family, client_error, family_of, named
from semel.types import ZERO_UUID, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

TOPIC_IDS_SINCE: Final = 13

_AHEAD_MAX: Final = 2
_NO_EPOCH: Final = -1
_NOBODY: Final = -1
_NEVER: Final = float("inf")


class Fetcher:
    """``out_of_range`` and ``errors`` collect what the consumer must decide about."""

    def __init__(
        self, config: ConsumerConfig, positions: Positions, connections: Connections, metadata: Metadata, random: Random
    ) -> None:
        self._config = config
        self._positions = positions
        self._connections = connections
        self._metadata = metadata
        self._random = random
        self._backoff = Backoff(config.client.retry_backoff_ms, config.client.retry_backoff_max_ms)
        self._busy: set[Route] = set()
        self._ready: deque[FetchedRecords] = deque()
        self._failures = 0
        self.out_of_range: list[Position] = []
        self.errors: dict[TopicPartition, Exception] = {}

    @property
    def has_records(self) -> bool:
        return any(
            self._is_current(chunk) and not self._positions[chunk.topic_partition].is_paused for chunk in self._ready
        )

    def take(self, count: int) -> list[ConsumerRecord]:
        """Up to so many records, and the positions move past them."""
        taken: list[ConsumerRecord] = []
        self._drop_stale()
        for chunk in tuple(self._ready):
            position = self._positions[chunk.topic_partition]
            wanted = count - len(taken)
            if position.is_paused or position.generation != chunk.generation:
                continue
            records = chunk.take(wanted)
            if records:
                position.offset = records[-1].offset + 1
                taken += records
            if len(records) == wanted:
                break
            self._ready.remove(chunk)
            if chunk.error is None:
                position.offset = chunk.next_offset
            else:
                self.errors[chunk.topic_partition] = chunk.error
                assert position.offset is not None
                position.seek(position.offset)  # To read it again: the next copy may be sound.
        return taken

    def poll(self, now_ms: float) -> None:
        """Ask every broker that has nothing to answer for what its partitions want."""
        self._drop_stale()
        room_bytes = self._config.fetch_max_bytes - sum(chunk.size_bytes for chunk in self._ready)
        if room_bytes <= 0:
            return
        ahead: dict[TopicPartition, int] = {}
        for chunk in self._ready:
            ahead[chunk.topic_partition] = ahead.get(chunk.topic_partition, 0) + 1
        by_route: dict[Route, list[Position]] = {}
        for position in self._positions:
            if not self._wants_more(position, ahead.get(position.topic_partition, 0), now_ms):
                continue
            leader = self._metadata.view.leader(position.topic_partition)
            if leader is None:
                self._metadata.outdated()
            elif Route(leader) not in self._busy:
                by_route.setdefault(Route(leader), []).append(position)
        for route, positions in by_route.items():
            if self._connections.ready(route, now_ms):
                self._fetch(route, positions, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        return min((position.retry_ms for position in self._positions if position.retry_ms > now_ms), default=_NEVER)

    def _is_current(self, chunk: FetchedRecords) -> bool:
        position = self._positions.get(chunk.topic_partition)
        return position is not None and position.generation == chunk.generation

    def _drop_stale(self) -> None:
        """What was fetched for a position that is no longer the position."""
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

    def _fetch(self, route: Route, positions: Sequence[Position], now_ms: float) -> None:
        asked: dict[TopicPartition, tuple[Position, int, int]] = {}
        for position in positions:
            assert position.fetch_offset is not None
            asked[position.topic_partition] = (position, position.generation, position.fetch_offset)
            position.fetching = True
            self._positions.served(position)
        view = self._metadata.view
        unidentified = any(view.topic_id(topic) == ZERO_UUID for topic, _ in asked)

        def build(version: int) -> FetchRequest:
            topics: dict[str, FetchTopic] = {}
            for (topic, index), (_, _, offset) in asked.items():
                partition = view.partition(TopicPartition(topic, index))
                epoch = None if partition is None else partition.leader_epoch
                topics.setdefault(topic, FetchTopic(topic, view.topic_id(topic), [])).partitions.append(
                    FetchPartition(
                        index,
                        current_leader_epoch=_NO_EPOCH if epoch is None else epoch,
                        fetch_offset=offset,
                        partition_max_bytes=self._config.max_partition_fetch_bytes,
                    )
                )
            return FetchRequest(
                max_wait_ms=self._config.fetch_max_wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                max_bytes=self._config.fetch_max_bytes,
                isolation_level=self._config.isolation_level,
                topics=list(topics.values()),
                rack_id=self._config.client_rack,
            )

        def answered(response: Any, version: int, at_ms: float) -> None:
            self._busy.discard(route)
            names = view.topic_names if version >= TOPIC_IDS_SINCE else None
            self._answered(asked, response, names, at_ms)

        def lost(reason: str, at_ms: float) -> None:
            self._busy.discard(route)
            self._metadata.outdated()
            for position, generation, _ in asked.values():
                if position.generation == generation:
                    self._later(position, at_ms)

        self._busy.add(route)
        version_max = TOPIC_IDS_SINCE - 1 if unidentified else None
        call = Call(ApiKey.FETCH, build=build, answered=answered, lost=lost, version_max=version_max)
        self._connections.send(route, call, now_ms)

    def _answered(
        self,
        asked: dict[TopicPartition, tuple[Position, int, int]],
        response: FetchResponse,
        names: Any,
        now_ms: float,
    ) -> None:
        brokers = {node.node_id: Address(node.host, node.port) for node in response.node_endpoints}
        unanswered = dict(asked)
        if response.error_code == ErrorCode.NONE:
            for topic in response.responses:
                name = topic.topic if names is None else names.get(topic.topic_id, "")
                for data in topic.partitions:
                    found = unanswered.pop(TopicPartition(name, data.partition_index), None)
                    if found is not None and found[0].generation == found[1]:
                        self._partition_answered(found[0], found[2], data, brokers, now_ms)
        for position, generation, _ in unanswered.values():
            if position.generation == generation:
                self._later(position, now_ms)

    def _partition_answered(
        self, position: Position, fetch_offset: int, data: PartitionData, brokers: dict[int, Address], now_ms: float
    ) -> None:
        position.fetching = False
        code = data.error_code
        if code == ErrorCode.NONE:
            self._failures = 0
            position.high_watermark, position.last_stable_offset = data.high_watermark, data.last_stable_offset
            position.log_start_offset = data.log_start_offset
            if data.records is not None and len(data.records):
                self._keep(position, fetch_offset, data)
            return
        if data.current_leader.leader_id != _NOBODY:
            leader, epoch = data.current_leader.leader_id, data.current_leader.leader_epoch
            self._metadata.leader_moved(position.topic_partition, leader, epoch, brokers, now_ms)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._later(position, now_ms)
            # What lies before it may still be waiting to be taken; then it is asked for again, and answered again.
            if position.offset == position.fetch_offset:
                self.out_of_range.append(position)
            return
        if code in OUTDATED_METADATA:
            self._metadata.outdated()
        self._later(position, now_ms)
        if family_of(code) is not Family.RETRIABLE:
            text = f"{position.topic_partition} cannot be read: the broker answered {named(code).name}"
            self.errors[position.topic_partition] = client_error(code, text)

    def _keep(self, position: Position, fetch_offset: int, data: PartitionData) -> None:
        assert data.records is not None
        committed_only = self._config.isolation_level is IsolationLevel.READ_COMMITTED
        try:
            chunk = FetchedRecords(
                position.topic_partition,
                position.generation,
                data.records,
                fetch_offset=fetch_offset,
                aborted=data.aborted_transactions if committed_only else None,
                check_crcs=self._config.check_crcs,
            )
        except DecodeError as error:
            self.errors[position.topic_partition] = error
            return
        position.fetch_offset = chunk.next_offset
        self._ready.append(chunk)

    def _later(self, position: Position, now_ms: float) -> None:
        position.fetching = False
        self._failures += 1
        position.retry_ms = now_ms + self._backoff.delay_ms(self._failures, self._random)
