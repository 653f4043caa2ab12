"""A group's coordinator as a member sees it, and a consumer machine whose application is played by the test.

The other members exist only by name: a test says what they want, and whether one of them leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from semel.client.assignors import Assignment, Assignor, Subscription, make_assignors
from semel.client.config.consumer import ConsumerConfig
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer.consumer import ConsumerMachine
from semel.client.machine.group.reassignment import Callback
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.values import OffsetAndMetadata
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_group_heartbeat import (
    Assignment as TargetAssignment,
)
from semel.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.wire.messages.heartbeat import HeartbeatResponse
from semel.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from semel.wire.messages.leave_group import LeaveGroupResponse
from semel.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from semel.wire.messages.sync_group import SyncGroupResponse
from tests.unit.client.machine.consumer.test_consumer import append
from tests.unit.client.machine.machine_bench import Bench, Request
from tests.unit.client.machine.model_cluster import ModelCluster

GROUP_APIS = {
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
}


@dataclass
class ModelGroup:
    generation: int = 0
    issued: list[str] = field(default_factory=list)
    current: str | None = None
    others: dict[str, Subscription] = field(default_factory=dict)
    other_leads: bool = False
    given: list[TopicPartition] = field(default_factory=list)
    """What we are assigned, when another member leads."""
    assigned: dict[str, Assignment] = field(default_factory=dict)
    is_rebalancing: bool = False
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    left: list[Any] = field(default_factory=list)
    refuse_with: dict[ApiKey, list[ErrorCode]] = field(default_factory=dict)
    # The consumer protocol
    epoch: int = 0
    target: dict[str, list[int]] = field(default_factory=dict)
    told_target: dict[str, list[int]] | None = None

    def refusal(self, api_key: ApiKey) -> ErrorCode:
        codes = self.refuse_with.get(api_key, [])
        return codes.pop(0) if codes else ErrorCode.NONE

    def retarget(self, **target: list[int]) -> None:
        self.target = target
        self.epoch += 1


class GroupCluster(ModelCluster):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"topics": {"orders": 4}, **options})
        self.group = ModelGroup()
        self.uncommitted: Callable[[Any], ErrorCode] = lambda message: ErrorCode.NONE

    def _metadata(self, request: Any) -> Any:
        if request.message.topics is None:
            response = super()._metadata(request)
            response.topics = [self._topic(name) for name in dict.fromkeys(topic for topic, _ in self.logs)]
            return response
        return super()._metadata(request)

    def _join_group(self, request: Any) -> JoinGroupResponse:
        group, message = self.group, request.message
        code = group.refusal(ApiKey.JOIN_GROUP)
        if code != ErrorCode.NONE:
            return JoinGroupResponse(error_code=code, protocol_name=None)
        member_id = message.member_id
        if not member_id:
            member_id = f"member-{len(group.issued) + 1}"
            group.issued.append(member_id)
            if message.group_instance_id is None and request.version >= 4:
                return JoinGroupResponse(
                    error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name=None, member_id=member_id
                )
        elif member_id not in group.issued:
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=None)
        group.generation += 1
        group.current, group.is_rebalancing = member_id, False
        chosen = message.protocols[0]
        leader = next(iter(group.others)) if group.other_leads else member_id
        members = [JoinGroupResponseMember(member_id, message.group_instance_id, chosen.metadata)]
        members += [JoinGroupResponseMember(name, None, sub.to_bytes()) for name, sub in group.others.items()]
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type="consumer",
            protocol_name=chosen.name,
            leader=leader,
            member_id=member_id,
            members=[] if group.other_leads else members,
        )

    def _member_error(self, generation: int, member_id: str) -> ErrorCode:
        if member_id not in self.group.issued or member_id != self.group.current:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.group.generation else ErrorCode.ILLEGAL_GENERATION

    def _sync_group(self, request: Any) -> SyncGroupResponse:
        group, message = self.group, request.message
        code = group.refusal(ApiKey.SYNC_GROUP) or self._member_error(message.generation_id, message.member_id)
        if code != ErrorCode.NONE:
            return SyncGroupResponse(error_code=code)
        if group.other_leads:
            return SyncGroupResponse(assignment=Assignment(tuple(group.given)).to_bytes())
        group.assigned = {a.member_id: Assignment.from_bytes(a.assignment) for a in message.assignments}
        return SyncGroupResponse(assignment=group.assigned[message.member_id].to_bytes())

    def _heartbeat(self, request: Any) -> HeartbeatResponse:
        message = request.message
        code = self.group.refusal(ApiKey.HEARTBEAT) or self._member_error(message.generation_id, message.member_id)
        if code == ErrorCode.NONE and self.group.is_rebalancing:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return HeartbeatResponse(error_code=code)

    def _leave_group(self, request: Any) -> LeaveGroupResponse:
        self.group.left.append(request.message.members[0].member_id)
        return LeaveGroupResponse()

    def _offset_commit(self, request: Any) -> OffsetCommitResponse:
        message = request.message
        code = self.group.refusal(ApiKey.OFFSET_COMMIT)
        generation = message.generation_id_or_member_epoch
        if code == ErrorCode.NONE and generation is not None:
            if self.group.epoch:
                code = ErrorCode.NONE if generation == self.group.epoch else ErrorCode.STALE_MEMBER_EPOCH
            else:
                code = self._member_error(generation, message.member_id)
        topics = []
        for topic in message.topics:
            for asked in topic.partitions:
                if code == ErrorCode.NONE:
                    self.group.offsets[TopicPartition(topic.name, asked.partition_index)] = asked.committed_offset
            answers = [OffsetCommitResponsePartition(asked.partition_index, code) for asked in topic.partitions]
            topics.append(OffsetCommitResponseTopic(topic.name, partitions=answers))
        return OffsetCommitResponse(topics=topics)

    def _offset_fetch(self, request: Any) -> OffsetFetchResponse:
        (asked,) = request.message.groups
        code = self.group.refusal(ApiKey.OFFSET_FETCH)
        topics = [
            OffsetFetchResponseTopics(
                topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        index, self.group.offsets.get(TopicPartition(topic.name, index)), None, "", code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(asked.group_id, topics)])

    def _consumer_group_heartbeat(self, request: Any) -> ConsumerGroupHeartbeatResponse:
        group, message = self.group, request.message
        code = group.refusal(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if code != ErrorCode.NONE:
            return ConsumerGroupHeartbeatResponse(error_code=code)
        if message.member_epoch < 0:
            group.left.append((message.member_id, message.member_epoch))
            return ConsumerGroupHeartbeatResponse(member_epoch=message.member_epoch)
        if message.member_epoch == 0:
            assert message.topic_partitions == [], "who joins owns nothing"
            group.told_target = None
            group.epoch += 1
        assignment = None
        if group.told_target != group.target:
            group.told_target = dict(group.target)
            assignment = TargetAssignment(
                [TopicPartitions(self.topic_id(name), indexes) for name, indexes in group.target.items()]
            )
        return ConsumerGroupHeartbeatResponse(
            member_id=message.member_id,
            member_epoch=group.epoch,
            heartbeat_interval_ms=5_000,
            assignment=assignment,
        )


class Member:
    """A consumer machine and its application. ``events`` is what the listener was told, in order."""

    def __init__(
        self, cluster: GroupCluster | None = None, *, assignors: Iterable[Assignor | str] | None = None, **settings: Any
    ) -> None:
        self.cluster = cluster or GroupCluster()
        self.group = self.cluster.group
        settings = {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "group_id": "billing",
            "auto_offset_reset": "earliest",
            **settings,
        }
        config = ConsumerConfig.load(settings)
        offered = make_assignors(config.partition_assignment_strategy if assignors is None else assignors)
        self.machine = ConsumerMachine(config, Random(0), assignors=offered)
        self.held: set[ApiKey] = set()
        self.bench = Bench(self.machine, self.cluster, held=self.is_held, due_ms=self.answer_ms)
        self.events: list[tuple[str, list[int]]] = []
        self.on_callback: Callable[[Callback], None] = lambda callback: None

    def answer_ms(self, request: Request) -> float:
        return request.at_ms + (request.message.max_wait_ms if request.api_key is ApiKey.FETCH else 0)

    def is_held(self, request: Request) -> bool:
        if request.api_key in self.held:
            return True
        if request.api_key is not ApiKey.FETCH or self.bench.now_ms >= self.answer_ms(request):
            return False
        answer: Any = self.cluster.answer(request)
        data = [partition for topic in answer.responses for partition in topic.partitions]
        return not any(partition.records or partition.error_code for partition in data)

    # The application

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        self.machine.subscribe(TopicSubscription.of(topics or None, pattern), self.bench.now_ms)

    def poll(self, ms: float = 1_000, *, count: int = 500) -> list[tuple[int, int]]:
        """What ``Consumer.poll`` does: take, serve callbacks, wait; so long that everything that can happen does."""
        machine, group = self.machine, self.machine.group
        assert group is not None
        end_ms = self.bench.now_ms + ms
        while True:
            group.polled(self.bench.now_ms)
            records = machine.take(count)
            callback = None if records else machine.due(self.bench.now_ms)
            if callback is not None:
                self.events.append((callback.change.value, [index for _, index in callback.partitions]))
                self.on_callback(callback)
                machine.callback_done(callback, self.bench.now_ms)
                self.bench.turn()
            elif records or self.bench.now_ms >= end_ms:
                self.bench.turn()
                return [(record.partition, record.offset) for record in records]
            else:
                group.poll_began(self.bench.now_ms)
                readable = machine.readable()
                self.bench.turn()
                while not readable.settled and self.bench.now_ms < end_ms:
                    self.bench.advance(min(50, end_ms - self.bench.now_ms))
                group.poll_ended(self.bench.now_ms)

    def serve(self, promise: Promise[None], ms: float = 1_000) -> None:
        """What ``close`` and ``unsubscribe`` do after ``leave``."""
        machine, group = self.machine, self.machine.group
        assert group is not None
        end_ms = self.bench.now_ms + ms
        while not promise.settled and self.bench.now_ms < end_ms:
            group.poll_began(self.bench.now_ms)
            self.bench.advance(10)
            callback = machine.due(self.bench.now_ms)
            if callback is not None:
                self.events.append((callback.change.value, [index for _, index in callback.partitions]))
                machine.callback_done(callback, self.bench.now_ms)
            self.bench.turn()

    def away(self, ms: float) -> None:
        """The application works on what it has got."""
        self.bench.advance(ms)

    def fill(self, partition: int, count: int, topic: str = "orders") -> None:
        for _ in range(count):
            append(self.cluster.log(topic, partition), [b"x"])
        self.bench.turn()

    def commit(self, offsets: dict[TopicPartition, int] | None = None) -> Promise[None]:
        asked = None if offsets is None else {tp: OffsetAndMetadata(offset) for tp, offset in offsets.items()}
        promise = self.machine.commit(asked, self.bench.now_ms)
        self.bench.turn()
        return promise

    # What was asked

    def order(self, *api_keys: ApiKey) -> list[str]:
        """The requests of these kinds, in the order they were sent."""
        return [request.api_key.name for request in self.bench.seen if request.api_key in api_keys]

    def last(self, api_key: ApiKey) -> Any:
        return self.bench.requests(api_key)[-1].message
