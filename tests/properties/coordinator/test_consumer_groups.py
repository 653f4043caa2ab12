"""A consumer group under everything that can happen to it, against the laws of docs/design/groups.md.

Members of both protocols join, heartbeat, hesitate, lose answers, change their minds, leave, go silent; topics come,
grow and go; the coordinator restarts. After every step:

- law 1: no epoch goes back, neither the group's nor one that a member was told;
- law 3: a partition is owned by one member at most, as the coordinator sees it and as the members do;
- what is remembered is the replay of the log, compacted or not.

And when everything has become quiet, the group is stable and every partition has an owner.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import NO_PARTITIONS
from semel.coordinator.group.settings import ConsumerSettings, MigrationPolicy
from semel.errors import ErrorCode
from semel.wire.messages.consumer_group_heartbeat import LEAVING, LEAVING_STATIC_MEMBER
from tests.unit.coordinator.group.consumer.classic_consumer import ClassicConsumer
from tests.unit.coordinator.group.consumer.simulated_group import (
    GROUP,
    REBALANCE_TIMEOUT_MS,
    Coordinator,
    Member,
    Topics,
    state_of,
)

NAMES = ["orders", "payments", "refunds"]
SUBSCRIPTIONS = st.lists(st.sampled_from(NAMES), unique=True, min_size=1).map(tuple)
EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
}
EXPECTED |= {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID}


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # Once it is a consumer group it stays one: the classic protocol has its own machine.
        upgrades = ConsumerSettings(migration_policy=MigrationPolicy.UPGRADE)
        self.coordinator = Coordinator(Topics(orders=5, payments=2), upgrades)
        self.members: list[Member] = []
        self.joined = 0
        self.epoch_max = 0
        self.epochs_told: dict[str, int] = {}
        self.classics: list[ClassicConsumer] = []

    # -- what members do

    @precondition(lambda self: len(self.members) < 5)
    @rule(
        topics=SUBSCRIPTIONS,
        regex=st.sampled_from([None, None, ".*s", "ord.*"]),
        instance=st.sampled_from([None, None, "i1", "i2"]),
        hesitates=st.booleans(),
        assignor=st.sampled_from([None, "range", "uniform"]),
    )
    def join(
        self, topics: tuple[str, ...], regex: str | None, instance: str | None, hesitates: bool, assignor: str | None
    ) -> None:
        self.joined += 1
        member = Member(
            self.coordinator,
            f"member-{self.joined}",
            topics=topics,
            regex=regex,
            instance_id=instance,
            hesitates=hesitates,
            assignor=assignor,
        )
        if self.beat(member):
            self.members.append(member)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), says=st.booleans())
    def heartbeat(self, data: st.DataObject, says: bool) -> None:
        member = self.pick(data)
        if says or member.epoch == 0:
            self.beat(member)
        else:
            self.beat(member, claimed=None)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.pick(data).revoke()

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def lose_an_answer(self, data: st.DataObject) -> None:
        """The coordinator decides, the member never hears of it, and asks again with everything it knows."""
        member = self.pick(data)
        before = member.epoch, member.owned, member.told
        self.beat(member)
        member.epoch, member.owned, member.told = before
        self.beat(
            member,
            topic_names=member.topics,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            claimed=NO_PARTITIONS if member.epoch == 0 else member.owned,
        )

    @precondition(lambda self: self.members)
    @rule(data=st.data(), topics=SUBSCRIPTIONS)
    def change_subscription(self, data: st.DataObject, topics: tuple[str, ...]) -> None:
        member = self.pick(data)
        member.topics = topics
        self.beat(member, topic_names=topics)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        member = self.pick(data)
        self.members.remove(member)
        epoch = LEAVING_STATIC_MEMBER if for_a_while and member.instance_id is not None else LEAVING
        assert member.leave(epoch).error in EXPECTED

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """It is gone, and nobody knows."""
        self.members.remove(self.pick(data))

    @precondition(lambda self: len(self.classics) < 3 and self.has_members)
    @rule(topics=SUBSCRIPTIONS, cooperative=st.booleans())
    def join_classic(self, topics: tuple[str, ...], cooperative: bool) -> None:
        self.joined += 1
        consumer = ClassicConsumer(self.coordinator, f"classic-{self.joined}", topics=topics, cooperative=cooperative)
        self.join_again(consumer)
        self.classics.append(consumer)

    @precondition(lambda self: self.classics and self.has_members)
    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        self.follow_classic(data.draw(st.sampled_from(self.classics), label="classic member"))

    @precondition(lambda self: self.classics)
    @rule(data=st.data(), leaves=st.booleans())
    def classic_goes(self, data: st.DataObject, leaves: bool) -> None:
        consumer = data.draw(st.sampled_from(self.classics), label="classic member")
        self.classics.remove(consumer)
        if leaves:
            assert consumer.leave() in EXPECTED

    # -- what happens around them

    @rule(milliseconds=st.sampled_from([1, 5000, 29_999, 44_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.coordinator.pass_time(milliseconds)

    @rule(name=st.sampled_from(NAMES), grown=st.integers(1, 6))
    def topics_change(self, name: str, grown: int) -> None:
        topic = self.coordinator.topics.by_name(name)
        if topic is None:
            self.coordinator.topics.create(name, grown)
        elif grown > topic.partition_count:
            self.coordinator.topics.grow(name, grown)
        elif grown == 1:
            self.coordinator.topics.delete(name)

    @rule()
    def restart(self) -> None:
        self.coordinator.restart()

    @precondition(lambda self: self.members)
    @rule()
    def become_quiet(self) -> None:
        """When nothing changes any more, everything is settled soon."""
        for member in self.members:
            member.hesitates = False
            member.revoke()
        for _ in range(10):  # Those who died are found out meanwhile.
            self.coordinator.pass_time(5000)
            self.everybody_heartbeats()
        if not self.members and not self.classics:
            return
        for _ in range(20):
            self.everybody_heartbeats()
            if self.group.state_name == "Stable":
                break
        else:
            raise AssertionError(f"not stable: {self.group.current}")
        topics, owned = self.coordinator.topics, set[object]()
        assert {*(one.member_id for one in self.members), *(one.member_id for one in self.classics)} == set(
            self.group.members
        )
        names = {name for member in self.group.members.values() for name in self.group.topics_of(member)}
        for consumer in self.classics:
            assert consumer.partitions == self.group.target(consumer.member_id)
            owned |= consumer.partitions
        for member in self.members:
            assert member.owned == self.group.target(member.member_id)
            owned |= member.owned
        existing = [name for name in names if topics.by_name(name) is not None]
        assert owned == (topics.partitions(*existing) if existing else set())

    # -- laws

    @invariant()
    def no_epoch_goes_back(self) -> None:
        group = self.coordinator.shard.directory.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            assert group.epoch >= self.epoch_max, "law 1"
            assert group.target_epoch <= group.epoch
            self.epoch_max = group.epoch
            for current in group.current.values():
                assert current.epoch <= group.target_epoch

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.coordinator.shard.directory.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            owners = Counter(partition for current in group.current.values() for partition in current.owned)
            assert all(count == 1 for count in owners.values()), "law 3"
            assert set(owners) == set(group.owners)
            assert set(group.current) <= set(group.members)
            assert set(group.targets) <= set(group.members)
        # What members hold, they hold in the coordinator's eyes too, unless they are gone in them.
        alive = [member for member in self.members if self.is_current(member)]
        held = Counter(partition for member in alive for partition in member.owned)
        for consumer in self.classics:
            if self.is_at(consumer.member_id, consumer.generation):
                held.update(consumer.partitions)
        assert all(count == 1 for count in held.values()), "law 3, as the members see it"

    @invariant()
    def the_state_is_the_replay_of_the_log(self) -> None:
        live = state_of(self.coordinator.shard)
        assert state_of(self.coordinator.reload()) == live
        log = self.coordinator.log
        latest = {key: offset for offset, (key, _) in enumerate(log)}
        compacted = [log[offset] for offset in sorted(latest.values())]
        try:
            self.coordinator.log = compacted
            assert state_of(self.coordinator.reload()) == live, "compacted"
        finally:
            self.coordinator.log = log

    # -- parts of the above

    @property
    def group(self) -> ConsumerGroup:
        return self.coordinator.group

    def pick(self, data: st.DataObject) -> Member:
        return data.draw(st.sampled_from(self.members), label="member")

    @property
    def has_members(self) -> bool:
        group = self.coordinator.shard.directory.groups.get(GROUP)
        return isinstance(group, ConsumerGroup) and bool(group.members)

    def is_current(self, member: Member) -> bool:
        return self.is_at(member.member_id, member.epoch)

    def is_at(self, member_id: str, epoch: int) -> bool:
        group = self.coordinator.shard.directory.groups.get(GROUP)
        is_member = isinstance(group, ConsumerGroup) and member_id in group.members
        return is_member and epoch == self.group.assignment(member_id).epoch

    def everybody_heartbeats(self) -> None:
        for member in list(self.members):
            self.beat(member)
        for consumer in self.classics:
            self.follow_classic(consumer)

    def follow_classic(self, consumer: ClassicConsumer) -> None:
        error = consumer.heartbeat()
        if error is ErrorCode.NONE:
            return
        if error is not ErrorCode.REBALANCE_IN_PROGRESS:
            assert error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
            consumer.owned, consumer.generation = frozenset(), -1
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                consumer.member_id = ""
        self.join_again(consumer)

    def join_again(self, consumer: ClassicConsumer) -> None:
        if not self.has_members:
            return  # It would become a classic group.
        joined = consumer.join()
        assert joined.error is ErrorCode.NONE, joined
        assert joined.generation >= self.epochs_told.get(joined.member_id, 0), "law 1"
        self.epochs_told[joined.member_id] = joined.generation
        assert consumer.sync().error is ErrorCode.NONE

    def beat(self, member: Member, **changed: object) -> bool:
        result = member.beat(**changed)
        assert result.error in EXPECTED, result
        if result.error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID) and member in self.members:
            self.members.remove(member)  # Another member has its instance id: the client ends.
        if result.error is not ErrorCode.NONE:
            return False
        assert result.member_epoch >= self.epochs_told.get(member.member_id, 0), "law 1"
        self.epochs_told[member.member_id] = result.member_epoch
        return True


TestConsumerGroups = ConsumerGroupMachine.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=40)
