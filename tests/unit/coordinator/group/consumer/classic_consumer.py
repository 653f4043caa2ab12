"""A consumer that speaks the classic protocol, eager or cooperative, to a group of either kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from semel.coordinator.decision import DEFERRED, Waiter
from semel.coordinator.group.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeavingMember,
    OfferedProtocol,
    SyncRequest,
)
from semel.coordinator.group.classic.results import JoinResult, LeaveResult, SyncResult
from semel.coordinator.group.consumer.records import AssignedPartition
from semel.errors import ErrorCode
from semel.types import ZERO_UUID, TopicPartition
from semel.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    grouped,
)
from tests.unit.coordinator.group.consumer.simulated_group import GROUP, REBALANCE_TIMEOUT_MS, Coordinator

CLASSIC_SESSION_TIMEOUT_MS = 10_000


@dataclass
class ClassicConsumer:
    coordinator: Coordinator
    name: str
    topics: tuple[str, ...] = ("orders",)
    cooperative: bool = False
    instance_id: str | None = None
    protocol_type: str = "consumer"
    assignor: str = "range"
    member_id: str = ""
    generation: int = -1
    owned: frozenset[TopicPartition] = frozenset()
    assigned_ids: dict[str, UUID] = field(default_factory=dict)
    """Of the topics that were there when it was told what it owns: one of the same name may be made later."""
    answers: list[Any] = field(default_factory=list)

    @property
    def partitions(self) -> set[AssignedPartition]:
        """What it owns, by topic id."""
        found = set()
        for name, index in self.owned:
            topic = self.coordinator.topics.by_name(name)
            # Else it will soon hear that it is gone, and of the one that was made in its place.
            if topic is not None and topic.topic_id == self.assigned_ids.get(name):
                found.add(AssignedPartition(topic.topic_id, index))
        return found

    def join(self) -> Any:
        """Returns the answer, or ``DEFERRED``; that one comes into ``answers``."""
        if not self.cooperative:
            self.owned = frozenset()
        subscription = ConsumerProtocolSubscription(
            list(self.topics), owned_partitions=grouped(self.owned), generation_id=self.generation
        )
        request = JoinRequest(
            GROUP,
            self.member_id,
            self.instance_id,
            client_id=self.name,
            client_host="/192.0.2.2",
            session_timeout_ms=CLASSIC_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            protocol_type=self.protocol_type,
            protocols=(OfferedProtocol(self.assignor, encode_subscription(subscription)),),
            uuid=uuid5(ZERO_UUID, f"{self.name} {len(self.coordinator.log)}"),
        )
        decision = self.coordinator.shard.join_group(request, self._waiter(), self.coordinator.moment)
        answer = self.coordinator.carry_out(decision)
        if isinstance(answer, JoinResult):
            self.member_id = answer.member_id
            if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                return self.join()
            if answer.error is ErrorCode.NONE and answer.generation is not None:
                self.generation = answer.generation
        return answer

    def _waiter(self) -> Waiter[Any]:
        return Waiter(self.answers.append, refused=lambda error: error)

    def sync(self, assignments: Iterable[tuple[str, bytes]] = ()) -> Any:
        request = SyncRequest(
            GROUP, self.member_id, self.instance_id, self.generation, "consumer", self.assignor, tuple(assignments)
        )
        decision = self.coordinator.shard.sync_group(request, self._waiter(), self.coordinator.moment)
        answer = self.coordinator.carry_out(decision)
        if isinstance(answer, SyncResult):
            self.synced(answer)
        return answer

    def synced(self, answer: SyncResult) -> None:
        if answer.error is ErrorCode.NONE:
            topics = decode_assignment(answer.assignment).assigned_partitions
            self.owned = frozenset(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)
            known = (self.coordinator.topics.by_name(topic.topic) for topic in topics)
            self.assigned_ids = {topic.name: topic.topic_id for topic in known if topic is not None}

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(GROUP, self.member_id, self.instance_id, self.generation)
        decision = self.coordinator.shard.heartbeat(request, self.coordinator.moment)
        error: ErrorCode = self.coordinator.carry_out(decision).error
        return error

    def leave(self) -> ErrorCode:
        decision = self.coordinator.shard.leave_group(
            GROUP,
            [LeavingMember(self.member_id, self.instance_id)],
            self.coordinator.moment,
        )
        result: LeaveResult = self.coordinator.carry_out(decision)
        return result.members[0].error

    def follow(self) -> ErrorCode:
        """One round in a consumer group: heartbeat, and join and sync if told so."""
        error = self.heartbeat()
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            joined = self.join()
            assert joined.error is ErrorCode.NONE, joined
            synced: SyncResult = self.sync()
            if self.cooperative and synced.error is ErrorCode.NONE:
                return ErrorCode.NONE
        return error


def form_classic_group(*consumers: ClassicConsumer, user_data: bytes | None = None) -> None:
    """All of them in a stable classic group, the first one as its leader, each with its share of the topics."""
    coordinator = consumers[0].coordinator
    for consumer in consumers:
        assert consumer.join() is DEFERRED
    coordinator.pass_time(0)
    for consumer in consumers:
        joined = consumer.answers.pop()
        assert joined.error is ErrorCode.NONE, joined
        consumer.member_id, consumer.generation = joined.member_id, joined.generation
    names = coordinator.topics.names()
    everything = [
        TopicPartition(name, index)
        for name in names
        for index in range(coordinator.topics.by_name(name).partition_count)  # type: ignore[union-attr]
    ]
    shares = {
        consumer.member_id: encode_assignment(
            ConsumerProtocolAssignment(grouped(everything[number :: len(consumers)]), user_data)
        )
        for number, consumer in enumerate(consumers)
    }
    for consumer in consumers[1:]:
        assert consumer.sync() is DEFERRED
    assert consumers[0].sync(shares.items()).error is ErrorCode.NONE
    for consumer in consumers[1:]:
        consumer.synced(consumer.answers.pop())
