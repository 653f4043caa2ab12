"""A model cluster that can be administered, and an admin client in it: no sockets, and time is moved by hand.

``Administered`` has the parts of ``semel.Admin``; a call runs until it is settled, however much time of the bench that
takes. What the model does not know, a test puts into ``answers``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.configs import Configs
from semel.client.admin.groups import Groups
from semel.client.admin.partitions import Partitions
from semel.client.admin.results import Results
from semel.client.admin.topics import Topics
from semel.client.admin.transactions import Transactions
from semel.client.admin.users import Users
from semel.client.config.admin import AdminConfig
from semel.client.machine.admin.admin import AdminMachine
from semel.client.machine.admin.ask import Ask
from semel.errors import ErrorCode
from semel.net.network import SystemNetwork
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from semel.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from semel.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from semel.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from semel.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from semel.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from semel.wire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from semel.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from semel.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from semel.wire.messages.list_transactions import ListTransactionsResponse
from semel.wire.messages.list_transactions import TransactionState as ListedTransaction
from semel.wire.messages.metadata import MetadataResponse
from semel.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from tests.unit.client.machine.machine_bench import Bench, Request
from tests.unit.client.machine.model_cluster import ModelCluster

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

NOW_MS = 1_700_000_000_000


class AdminCluster(ModelCluster):
    """``coordinators`` says which node has which group or transactional id; node 1 has the others."""

    def __init__(self, *, nodes: int = 3, topics: dict[str, int] | None = None) -> None:
        super().__init__(nodes=nodes, topics=topics)
        self.controller_id = 1
        self.coordinators: dict[str, int] = {}
        self.classic_groups: set[str] = set()
        self.consumer_groups: set[str] = set()
        self.producers: dict[TopicPartition, list[ProducerState]] = {}
        self.transactional: dict[str, TransactionState] = {}
        self.answers: dict[ApiKey, Callable[[Request], object | None]] = {}

    def answer(self, request: Any) -> object | None:
        if request.api_key in self.answers:
            return self.answers[request.api_key](request)
        return super().answer(request)

    def coordinator(self, name: str) -> int:
        return self.coordinators.get(name, 1)

    def _metadata(self, request: Any) -> MetadataResponse:
        response = super()._metadata(request)
        response.controller_id = self.controller_id
        if request.message.topics is None:
            response.topics = [self._topic(name) for name in dict.fromkeys(topic for topic, _ in self.logs)]
        return response

    def _find_coordinator(self, request: Any) -> FindCoordinatorResponse:
        found = []
        for key in request.message.coordinator_keys:
            node_id = self.coordinator(key)
            found.append(Coordinator(key, node_id, *self.addresses[node_id]))
        return FindCoordinatorResponse(coordinators=found)

    def _create_topics(self, request: Any) -> CreateTopicsResponse:
        results = []
        for topic in request.message.topics:
            code = ErrorCode.NONE
            if request.node_id != self.controller_id:
                code = ErrorCode.NOT_CONTROLLER
            elif TopicPartition(topic.name, 0) in self.logs:
                code = ErrorCode.TOPIC_ALREADY_EXISTS
            else:
                self.create_topic(topic.name, topic.num_partitions)
            results.append(CreatableTopicResult(topic.name, error_code=code, num_partitions=topic.num_partitions))
        return CreateTopicsResponse(topics=results)

    def _delete_topics(self, request: Any) -> DeleteTopicsResponse:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(
                    topic.name,
                    error_code=ErrorCode.NONE if TopicPartition(topic.name, 0) in self.logs else unknown,
                )
                for topic in request.message.topics
            ]
        )

    def _list_groups(self, request: Any) -> ListGroupsResponse:
        groups = sorted(self.classic_groups | self.consumer_groups)
        return ListGroupsResponse(
            groups=[
                ListedGroup(name, "consumer", "Stable", "classic" if name in self.classic_groups else "consumer")
                for name in groups
                if self.coordinator(name) == request.node_id
            ]
        )

    def _group_error(self, request: Any, name: str, known: set[str]) -> ErrorCode:
        if request.node_id != self.coordinator(name):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if name in known else ErrorCode.GROUP_ID_NOT_FOUND

    def _describe_groups(self, request: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=[
                DescribedGroup(
                    self._group_error(request, name, self.classic_groups), group_id=name, group_state="Stable"
                )
                for name in request.message.groups
            ]
        )

    def _consumer_group_describe(self, request: Any) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(
            groups=[
                ConsumerGroup(
                    self._group_error(request, name, self.consumer_groups), group_id=name, group_state="Stable"
                )
                for name in request.message.group_ids
            ]
        )

    def _offset_fetch(self, request: Any) -> OffsetFetchResponse:
        groups = []
        for group in request.message.groups:
            wrong = request.node_id != self.coordinator(group.group_id)
            code = ErrorCode.NOT_COORDINATOR if wrong else ErrorCode.NONE
            groups.append(OffsetFetchResponseGroup(group.group_id, [], code))
        return OffsetFetchResponse(groups=groups)

    def _describe_producers(self, request: Any) -> DescribeProducersResponse:
        topics = []
        for topic in request.message.topics:
            answers = []
            for index in topic.partition_indexes:
                partition = TopicPartition(topic.name, index)
                wrong = self.leaders[partition] != request.node_id
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER if wrong else ErrorCode.NONE
                states = [] if wrong else self.producers.get(partition, [])
                answers.append(PartitionResponse(index, code, active_producers=states))
            topics.append(TopicResponse(topic.name, answers))
        return DescribeProducersResponse(topics=topics)

    def _list_transactions(self, request: Any) -> ListTransactionsResponse:
        wanted = request.message.producer_id_filters
        return ListTransactionsResponse(
            transaction_states=[
                ListedTransaction(name, state.producer_id, state.transaction_state)
                for name, state in self.transactional.items()
                if self.coordinator(name) == request.node_id and (not wanted or state.producer_id in wanted)
            ]
        )

    def _describe_transactions(self, request: Any) -> DescribeTransactionsResponse:
        absent = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return DescribeTransactionsResponse(
            transaction_states=[
                self.transactional.get(name, TransactionState(absent, name))
                for name in request.message.transactional_ids
            ]
        )


@dataclass
class BenchClock:
    bench: Bench

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> float:
        return self.bench.now_ms


class _WorldRequests(AdminRequests):
    """Asks in the bench, and lets its time pass until there is an answer."""

    def __init__(self, config: AdminConfig, machine: AdminMachine, bench: Bench) -> None:
        clock = BenchClock(bench)
        super().__init__(config, machine, network=SystemNetwork(), clock=clock, random=Random(0), guard=None)
        self._bench = bench

    async def ask(self, ask: Ask[K, V], keys: Iterable[K], deadline_ms: float) -> Results[K, V]:
        promise = self._machine.ask(ask, keys, self._bench.now_ms, deadline_ms)
        self._bench.turn()
        while not promise.settled:
            self._bench.advance(10)
        return promise.value


@dataclass
class Administered:
    cluster: AdminCluster
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = AdminConfig.load({"bootstrap_servers": self.cluster.bootstrap_servers, **self.settings})
        self.machine = AdminMachine(config, Random(0))
        self.bench = Bench(self.machine, self.cluster)
        requests = _WorldRequests(config, self.machine, self.bench)
        self.topics = Topics(requests)
        self.configs = Configs(requests)
        self.partitions = Partitions(requests)
        self.groups = Groups(requests)
        self.transactions = Transactions(requests)
        self.users = Users(requests)

    def asked(self, api_key: ApiKey) -> list[int]:
        """Which nodes were asked, in order."""
        return [request.node_id for request in self.bench.requests(api_key)]


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)
