"""Lookups of offsets by timestamp (ListOffsets), sent to the leaders until all are known or one is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from semel.client.config.common import ClientConfig
from semel.client.config.consumer import IsolationLevel
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import COORDINATION, Connections, Route
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.promise import Promise
from semel.client.machine.connection.retry import Retry
from semel.client.machine.producer.produce_errors import OUTDATED_METADATA
from semel.client.values import OffsetAndTimestamp
from semel.clock import NEVER
from semel.errors import ErrorCode, Family, client_error, family_of, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


@dataclass(slots=True, eq=False)
class Search:
    """One lookup of offsets by timestamp. ``found`` has ``None`` where no record has that timestamp or a later one."""

    wanted: dict[TopicPartition, int]
    retry: Retry
    found: dict[TopicPartition, OffsetAndTimestamp | None] = field(default_factory=dict)
    asked: set[TopicPartition] = field(default_factory=set)
    promise: Promise[dict[TopicPartition, OffsetAndTimestamp | None]] = field(default_factory=Promise)


class OffsetLookup:
    def __init__(
        self,
        config: ClientConfig,
        isolation_level: IsolationLevel,
        connections: Connections,
        metadata: Metadata,
        random: Random,
    ) -> None:
        self._isolation_level = isolation_level
        self._connections = connections
        self._metadata = metadata
        self._timeout_ms = config.request_timeout_ms
        self._retry = Retry.of(config, random)
        self._searches: list[Search] = []

    def find(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Promise[dict[TopicPartition, OffsetAndTimestamp | None]]:
        search = Search(dict(timestamps), self._retry)
        if search.wanted:
            self._searches.append(search)
        else:
            search.promise.fulfil({})
        return search.promise

    def poll(self, now_ms: float) -> None:
        for search in tuple(self._searches):
            if search.promise.settled:
                self._searches.remove(search)
            elif search.retry.is_due(now_ms):
                self._ask(search, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        return min((search.retry.next_deadline_ms(now_ms) for search in self._searches), default=NEVER)

    def topics(self) -> list[str]:
        """Return the topics of all open lookups."""
        return [topic for search in self._searches for topic, _ in search.wanted]

    def fail(self, error: Exception) -> None:
        searches, self._searches = self._searches, []
        for search in searches:
            search.promise.fail(error)

    def _ask(self, search: Search, now_ms: float) -> None:
        by_route: dict[Route, list[TopicPartition]] = {}
        for topic_partition in search.wanted:
            if topic_partition in search.found or topic_partition in search.asked:
                continue
            leader = self._metadata.view.leader(topic_partition)
            if leader is None:
                self._metadata.want(topic_partition.topic, now_ms)
                self._metadata.outdated()
            else:
                by_route.setdefault(Route(leader, COORDINATION), []).append(topic_partition)
        for route, partitions in by_route.items():
            if self._connections.ready(route, now_ms):
                search.asked.update(partitions)
                self._connections.send(route, self._call(search, partitions), now_ms)

    def _call(self, search: Search, partitions: Sequence[TopicPartition]) -> Call:
        def build(version: int) -> ListOffsetsRequest:
            topics: dict[str, ListOffsetsTopic] = {}
            for topic, index in partitions:
                topic_partition = TopicPartition(topic, index)
                partition = self._metadata.view.partition(topic_partition)
                epoch = None if partition is None else partition.leader_epoch
                asked = ListOffsetsPartition(index, epoch, search.wanted[topic_partition])
                topics.setdefault(topic, ListOffsetsTopic(topic, [])).partitions.append(asked)
            return ListOffsetsRequest(None, self._isolation_level, list(topics.values()), self._timeout_ms)

        def answered(response: Any, version: int, now_ms: float) -> None:
            self._answered(search, partitions, response, now_ms)

        def lost(reason: str, now_ms: float) -> None:
            search.asked.difference_update(partitions)
            self._metadata.outdated()
            search.retry = search.retry.failed(now_ms)

        return Call(ApiKey.LIST_OFFSETS, build=build, answered=answered, lost=lost)

    def _answered(
        self, search: Search, partitions: Sequence[TopicPartition], response: ListOffsetsResponse, now_ms: float
    ) -> None:
        search.asked.difference_update(partitions)
        for topic in response.topics:
            for answer in topic.partitions:
                topic_partition = TopicPartition(topic.name, answer.partition_index)
                code = answer.error_code
                if code == ErrorCode.NONE:
                    offset = answer.offset
                    search.found[topic_partition] = (
                        None if offset is None else OffsetAndTimestamp(offset, answer.timestamp)
                    )
                elif family_of(code) is Family.RETRIABLE:
                    if code in OUTDATED_METADATA:
                        self._metadata.outdated()
                    search.retry = search.retry.failed(now_ms)
                else:
                    text = f"ListOffsets of {topic_partition} was answered {named(code).name}"
                    search.promise.fail(client_error(code, text))
        if len(search.found) == len(search.wanted):
            search.promise.fulfil(search.found)
