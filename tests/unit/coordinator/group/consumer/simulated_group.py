"""A shard, its log, a cluster of topics and simulated members: enough to run a consumer group without a broker.

Whatever is decided goes through Kafka's bytes and back before it is replayed, as it would through a log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from semel.coordinator.decision import Decision
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import NO_PARTITIONS, AssignedPartition, Partitions
from semel.coordinator.group.consumer.requests import ConsumerHeartbeatResult, Heartbeat
from semel.coordinator.group.records import GroupRecord, decode, encode
from semel.coordinator.group.settings import ClassicSettings, ConsumerSettings, GroupSettings
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.group.topics import TopicView
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode

GROUP = "readers"
REBALANCE_TIMEOUT_MS = 30_000
WALL_MS = 1_700_000_000_000


class Topics:
    """Implements ``TopicsView``; unlike the real one it changes."""

    def __init__(self, **partition_counts: int) -> None:
        self._topics: dict[str, TopicView] = {}
        self.version = 0
        self._made = 0
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, partition_count: int) -> TopicView:
        self._made += 1
        self._topics[name] = TopicView(name, UUID(int=self._made), partition_count)
        self.version += 1
        return self._topics[name]

    def grow(self, name: str, partition_count: int) -> None:
        self._topics[name] = self._topics[name]._replace(partition_count=partition_count)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def by_name(self, name: str) -> TopicView | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)

    def partitions(self, *names: str) -> set[AssignedPartition]:
        """Of these topics, or of all."""
        chosen = [topic for topic in self._topics.values() if not names or topic.name in names]
        return {AssignedPartition(topic.topic_id, index) for topic in chosen for index in range(topic.partition_count)}


class Coordinator:
    """One shard with its log. ``now_ms`` is moved by the tests; ``overridden`` holds settings of single groups."""

    def __init__(self, topics: Topics | None = None, settings: ConsumerSettings | None = None) -> None:
        self.topics = Topics(orders=12) if topics is None else topics
        self.settings = GroupSettings(
            classic=ClassicSettings(initial_rebalance_delay_ms=0),
            consumer=ConsumerSettings() if settings is None else settings,
        )
        self.overridden: dict[str, ConsumerSettings] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = self._new_shard()
        self.now_ms = 0.0

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            partition=0,
            settings=self.settings,
            consumer_settings=lambda group_id: self.overridden.get(group_id, self.settings.consumer),
            topics=lambda: self.topics,
        )

    @property
    def moment(self) -> Moment:
        return Moment(WALL_MS + int(self.now_ms), self.now_ms)

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.directory.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def carry_out(self, decision: Decision[Any, GroupRecord, Any]) -> Any:
        for record in decision.records:
            self.log.append(encode(record))
            self._replay(self.shard, len(self.log) - 1)
        for change in decision.changes:
            self.shard.apply(change)
        for answer in decision.answers:
            answer.waiter.respond(answer.response)
        return decision.response

    def heartbeat(self, beat: Heartbeat) -> ConsumerHeartbeatResult:
        decision = self.shard.consumer_group_heartbeat(beat, self.moment)
        result: ConsumerHeartbeatResult = self.carry_out(decision)
        return result

    def pass_time(self, milliseconds: float) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.now_ms + milliseconds
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(due_ms, self.now_ms)
            for decision in self.shard.time_out(self.moment):
                self.carry_out(decision)
        self.now_ms = end_ms

    def reload(self) -> GroupShard:
        """What a restart makes of the log."""
        shard = self._new_shard()
        for offset in range(len(self.log)):
            self._replay(shard, offset)
        return shard

    def restart(self) -> None:
        self.shard = self.reload()
        self.carry_out(self.shard.loaded(self.moment))

    def _replay(self, shard: GroupShard, offset: int) -> None:
        record = decode(*self.log[offset])
        assert record is not None
        shard.replay(record, offset=offset)


@dataclass
class Member:
    """A consumer that does what it is told, at once, unless it ``hesitates`` to give partitions up."""

    coordinator: Coordinator
    member_id: str
    topics: tuple[str, ...] | None = ("orders",)
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    hesitates: bool = False
    epoch: int = 0
    owned: Partitions = NO_PARTITIONS
    told: Partitions = NO_PARTITIONS
    results: list[ConsumerHeartbeatResult] = field(default_factory=list)

    def beat(self, **changed: Any) -> ConsumerHeartbeatResult:
        joins = self.epoch == 0
        beat = Heartbeat(
            GROUP,
            self.member_id,
            self.epoch,
            self.instance_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms if joins else None,
            topic_names=self.topics if joins else None,
            topic_regex=self.regex if joins else None,
            assignor=self.assignor if joins else None,
            claimed=self.owned,
            client_id=f"client of {self.member_id}",
            client_host="/192.0.2.1",
        )
        fields = {name: getattr(beat, name) for name in beat.__dataclass_fields__}
        result = self.coordinator.heartbeat(Heartbeat(**{**fields, **changed}))
        self.results.append(result)
        self._obey(result)
        return result

    def leave(self, epoch: int = -1) -> ConsumerHeartbeatResult:
        result = self.coordinator.heartbeat(
            Heartbeat(GROUP, self.member_id, epoch, self.instance_id, client_id=f"client of {self.member_id}")
        )
        self.epoch, self.owned, self.told = 0, NO_PARTITIONS, NO_PARTITIONS
        return result

    def revoke(self) -> None:
        """Give up what it is no longer assigned."""
        self.owned = self.told

    def _obey(self, result: ConsumerHeartbeatResult) -> None:
        if result.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned, self.told = 0, NO_PARTITIONS, NO_PARTITIONS
        if result.error is not ErrorCode.NONE:
            return
        self.epoch = result.member_epoch
        if result.assigned is not None:
            self.told = result.assigned
        self.owned = self.owned | self.told if self.hesitates else self.told


def settle(*members: Member, rounds_max: int = 20) -> int:
    """Heartbeat in turn until everybody is stable. Returns how many rounds it took."""
    for number in range(1, rounds_max + 1):
        for member in members:
            assert member.beat().error is ErrorCode.NONE, member.results[-1]
        if members[0].coordinator.group.state_name == "Stable":
            return number
    raise AssertionError(f"not stable after {rounds_max} rounds: {members[0].coordinator.group.current}")


def members_of(coordinator: Coordinator, count: int, **fields: Any) -> list[Member]:
    return [Member(coordinator, f"member-{number}", **fields) for number in range(count)]


def revocation_owed(coordinator: Coordinator) -> list[Member]:
    """Two members: the first is told to give up partitions for the second, and has not yet."""
    first, second = members_of(coordinator, 2)
    first.hesitates = True
    first.beat()
    second.beat()
    first.beat()
    return [first, second]


def state_of(shard: GroupShard) -> dict[str, Any]:
    """Everything about consumer groups that the log must bring back."""
    return {
        group_id: (
            group.epoch,
            group.metadata_hash,
            group.target_epoch,
            group.members,
            group.instances,
            group.targets,
            group.current,
            group.owners,
            group.regexes,
        )
        for group_id, group in shard.directory.groups.items()
        if isinstance(group, ConsumerGroup)
    }
