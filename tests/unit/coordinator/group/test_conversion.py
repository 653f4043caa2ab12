"""A group changes its protocol while it runs, and members of both protocols share it meanwhile."""

from __future__ import annotations

import pytest

from semel.coordinator.decision import DEFERRED
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.results import JoinResult
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.kinds import GroupKind
from semel.coordinator.group.membership import Committer
from semel.coordinator.group.settings import ConsumerSettings, MigrationPolicy
from semel.errors import ErrorCode
from semel.wire.messages.consumer_protocol import ConsumerProtocolAssignment, encode_assignment, grouped
from tests.unit.coordinator.group.consumer.classic_consumer import (
    CLASSIC_SESSION_TIMEOUT_MS,
    ClassicConsumer,
    form_classic_group,
)
from tests.unit.coordinator.group.consumer.simulated_group import (
    GROUP,
    REBALANCE_TIMEOUT_MS,
    Coordinator,
    Member,
    Topics,
    members_of,
    settle,
    state_of,
)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Topics(orders=6))


def kind(coordinator: Coordinator) -> GroupKind:
    return coordinator.shard.directory.groups[GROUP].kind


def settle_all(members: list[Member], classic: list[ClassicConsumer], rounds_max: int = 12) -> None:
    """Until everybody is stable; after every step nobody owns what another one does."""
    coordinator = (members or classic)[0].coordinator
    for _ in range(rounds_max):
        for member in members:
            assert member.beat().error is ErrorCode.NONE, member.results[-1]
            check_disjoint(members, classic)
        for consumer in classic:
            assert consumer.follow() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
            check_disjoint(members, classic)
        if coordinator.group.state_name == "Stable":
            return
    raise AssertionError(f"not stable: {coordinator.group.current}")


def check_disjoint(members: list[Member], classic: list[ClassicConsumer]) -> None:
    owned = [set(member.owned) for member in members] + [consumer.partitions for consumer in classic]
    assert sum(map(len, owned)) == len(set().union(*owned)), owned


@pytest.mark.parametrize("cooperative", [False, True])
def test_the_first_kip_848_member_converts_the_group_and_the_others_go_on(
    coordinator: Coordinator, cooperative: bool
) -> None:
    classic = [ClassicConsumer(coordinator, name, cooperative=cooperative) for name in ("a", "b")]
    form_classic_group(*classic)
    generation = classic[0].generation

    member = Member(coordinator, "new")
    joined = member.beat()

    assert (joined.error, joined.assigned) == (ErrorCode.NONE, frozenset()), "everything is in use"
    assert kind(coordinator) is GroupKind.CONSUMER
    assert coordinator.group.epoch == generation + 1
    settle_all([member], classic)
    assert [len(member.owned), *(len(consumer.owned) for consumer in classic)] == [2, 2, 2]
    assert member.owned.union(*(consumer.partitions for consumer in classic)) == coordinator.topics.partitions()
    assert state_of(coordinator.reload()) == state_of(coordinator.shard)


def test_a_classic_member_keeps_committing_under_its_generation_until_it_is_called(coordinator: Coordinator) -> None:
    (consumer,) = classic = [ClassicConsumer(coordinator, "a")]
    form_classic_group(consumer)
    member = Member(coordinator, "new")
    member.beat()

    def commit(generation: int) -> ErrorCode:
        return coordinator.group.validate_offset_commit(
            Committer(consumer.member_id, generation), transactional=False, api_version=7
        )

    before = consumer.generation
    assert commit(before) is ErrorCode.NONE
    settle_all([member], classic)
    assert commit(before) is ErrorCode.ILLEGAL_GENERATION
    assert commit(consumer.generation) is ErrorCode.NONE


@pytest.mark.parametrize("how", ["leaves", "dies"])
def test_the_last_kip_848_member_that_goes_converts_the_group_back(coordinator: Coordinator, how: str) -> None:
    classic = [ClassicConsumer(coordinator, name) for name in ("a", "b")]
    form_classic_group(*classic)
    member = Member(coordinator, "new")
    settle_all([member], classic)
    epoch = coordinator.group.epoch

    if how == "leaves":
        member.leave()
    else:
        for _ in range(9):
            coordinator.pass_time(5000)
            if kind(coordinator) is GroupKind.CONSUMER:
                assert [consumer.heartbeat() for consumer in classic] == [ErrorCode.NONE] * 2

    group = coordinator.shard.directory.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    for consumer in classic:
        committer = Committer(consumer.member_id, consumer.generation)
        assert group.validate_offset_commit(committer, transactional=False, api_version=9) is ErrorCode.NONE
        assert consumer.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "it is not fenced: it keeps what it has read"
        consumer.join()
    assert [consumer.answers.pop().generation for consumer in classic] == [epoch + 1] * 2
    restarted = coordinator.reload().directory.groups[GROUP]
    assert isinstance(restarted, ClassicGroup)
    assert restarted.generation == epoch


def test_who_waits_in_a_rebalance_is_told_to_join_again(coordinator: Coordinator) -> None:
    first, second = ClassicConsumer(coordinator, "a"), ClassicConsumer(coordinator, "b")
    form_classic_group(first)
    assert second.join() is DEFERRED

    Member(coordinator, "new").beat()

    assert second.answers == [JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, second.member_id)]
    assert coordinator.shard.directory.groups[GROUP].kind is GroupKind.CONSUMER
    assert second.join().error is ErrorCode.NONE
    assert list(coordinator.shard.waiters()) == []


def test_what_cooperative_members_read_on_is_theirs_though_a_rebalance_took_their_assignments_back(
    coordinator: Coordinator,
) -> None:
    """One that joined, and then another one before the leader assigned: nobody has an assignment any more."""
    first, second, third = classic = [ClassicConsumer(coordinator, name, cooperative=True) for name in "abc"]
    form_classic_group(first)
    second.join()
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    first.join()
    for consumer in (first, second):
        consumer.generation = consumer.answers.pop().generation
    third.join()
    group = coordinator.shard.directory.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.members[first.member_id].assignment == b""

    member = Member(coordinator, "new")
    assert member.beat().assigned == frozenset(), "the first one reads on"

    check_disjoint([member], classic)
    for consumer in classic:
        consumer.join()
        consumer.sync()
        check_disjoint([member], classic)
    settle_all([member], classic)
    assert sorted([len(member.owned), *(len(consumer.owned) for consumer in classic)]) == [1, 1, 2, 2]


def test_what_a_cooperative_member_was_told_to_give_up_is_its_own_until_it_joins_without_it(
    coordinator: Coordinator,
) -> None:
    """The leader has assigned, and the group is stable; a member has yet to hear, and reads everything."""
    first, second = classic = [ClassicConsumer(coordinator, name, cooperative=True) for name in "ab"]
    form_classic_group(first)
    second.join()
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    first.join()
    for consumer in (first, second):
        consumer.generation = consumer.answers.pop().generation
    everything = first.owned
    kept = encode_assignment(ConsumerProtocolAssignment(grouped(sorted(everything)[:3])))
    assert first.sync({first.member_id: kept}.items()).error is ErrorCode.NONE
    assert len(first.owned) == 3
    first.owned = everything

    member = Member(coordinator, "new")
    assert member.beat().assigned == frozenset()
    assert second.follow() is ErrorCode.NONE
    check_disjoint([member], classic)
    assert state_of(coordinator.reload()) == state_of(coordinator.shard)

    settle_all([member], classic)
    assert [len(member.owned), *(len(consumer.owned) for consumer in classic)] == [2, 2, 2]


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_group_with_members_is_not_converted_without_leave(policy: MigrationPolicy) -> None:
    coordinator = Coordinator(Topics(orders=6), ConsumerSettings(migration_policy=policy))
    consumer = ClassicConsumer(coordinator, "a")
    form_classic_group(consumer)

    assert Member(coordinator, "new").beat().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(coordinator) is GroupKind.CLASSIC
    assert consumer.heartbeat() is ErrorCode.NONE


def test_without_leave_to_go_back_classic_members_stay_in_a_consumer_group() -> None:
    coordinator = Coordinator(Topics(orders=6), ConsumerSettings(migration_policy=MigrationPolicy.UPGRADE))
    consumer = ClassicConsumer(coordinator, "a")
    form_classic_group(consumer)
    member = Member(coordinator, "new")
    settle_all([member], [consumer])

    member.leave()
    settle_all([], [consumer])

    assert kind(coordinator) is GroupKind.CONSUMER
    assert len(consumer.owned) == 6


def test_a_group_of_something_else_than_consumers_is_not_converted(coordinator: Coordinator) -> None:
    ClassicConsumer(coordinator, "worker", protocol_type="connect").join()

    assert Member(coordinator, "new").beat().error is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(("assignor", "converted"), [("my own", False), ("cooperative-sticky", True)])
def test_a_group_whose_own_assignor_says_more_than_partitions_is_not_converted(
    coordinator: Coordinator, assignor: str, converted: bool
) -> None:
    consumer = ClassicConsumer(coordinator, "a", assignor=assignor)
    form_classic_group(consumer, user_data=b"weights")

    expected = ErrorCode.NONE if converted else ErrorCode.GROUP_ID_NOT_FOUND
    assert Member(coordinator, "new").beat().error is expected


def test_an_empty_classic_group_becomes_a_consumer_group_whatever_the_policy() -> None:
    coordinator = Coordinator(Topics(orders=6), ConsumerSettings(migration_policy=MigrationPolicy.DISABLED))
    consumer = ClassicConsumer(coordinator, "a")
    form_classic_group(consumer)
    consumer.leave()

    joined = Member(coordinator, "new").beat()

    assert joined.error is ErrorCode.NONE
    assert joined.member_epoch > consumer.generation, "law 1"
    assert isinstance(coordinator.reload().directory.groups[GROUP], ConsumerGroup)


def test_an_empty_consumer_group_becomes_a_classic_group(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)
    member.leave()
    epoch = coordinator.group.epoch

    consumer = ClassicConsumer(coordinator, "a")
    form_classic_group(consumer)

    assert kind(coordinator) is GroupKind.CLASSIC
    assert consumer.generation > epoch, "law 1"
    assert isinstance(coordinator.reload().directory.groups[GROUP], ClassicGroup)


def test_a_classic_member_joins_a_consumer_group(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)

    consumer = ClassicConsumer(coordinator, "a")
    assert consumer.join().error is ErrorCode.NONE
    assert consumer.sync().error is ErrorCode.NONE

    settle_all([member], [consumer])
    assert (len(member.owned), len(consumer.owned)) == (3, 3)
    assert kind(coordinator) is GroupKind.CONSUMER


def test_one_that_offers_nothing_in_common_with_other_classic_members_is_refused(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)
    ClassicConsumer(coordinator, "a").join()

    other = ClassicConsumer(coordinator, "b", assignor="roundrobin")
    assert other.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ClassicConsumer(coordinator, "c", protocol_type="connect").join().error is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )


@pytest.mark.parametrize("missed", ["session", "sync", "join"])
def test_a_classic_member_that_misses_a_deadline_is_removed(coordinator: Coordinator, missed: str) -> None:
    member, other = members_of(coordinator, 2)
    settle(member)
    consumer = ClassicConsumer(coordinator, "a")
    consumer.join()
    if missed != "sync":
        consumer.sync()
    if missed == "join":
        settle_all([member], [consumer])
        other.beat()
    assert consumer.member_id in coordinator.group.members

    timeout_ms = CLASSIC_SESSION_TIMEOUT_MS if missed == "session" else REBALANCE_TIMEOUT_MS
    for _ in range(timeout_ms // 5000 + 1):
        if missed != "session":
            consumer.heartbeat()
        member.beat()
        coordinator.pass_time(5000)

    assert consumer.member_id not in coordinator.group.members


def test_a_classic_member_that_was_removed_is_told_when_it_joins_late_with_what_it_takes_for_its_own(
    coordinator: Coordinator,
) -> None:
    """Scenarios 53 and 54: taken for a new one, it could commit what it has read of partitions that others have now."""
    (member,) = members_of(coordinator, 1)
    settle(member)
    consumer = ClassicConsumer(coordinator, "a", cooperative=True)
    consumer.join()
    consumer.sync()
    settle_all([member], [consumer])
    assert consumer.owned
    for _ in range(CLASSIC_SESSION_TIMEOUT_MS // 5000 + 1):
        member.beat()
        coordinator.pass_time(5000)
    settle(member)
    assert len(member.owned) == 6

    assert consumer.join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(coordinator.group.members) == [member.member_id]
    consumer.owned = frozenset()
    assert consumer.join().error is ErrorCode.NONE, "whoever has nothing may come, under any name"


def static_classic_member(coordinator: Coordinator) -> ClassicConsumer:
    """It shares a consumer group with a member of KIP-848's protocol."""
    (member,) = members_of(coordinator, 1)
    static = ClassicConsumer(coordinator, "a", instance_id="one")
    settle(member)
    static.join()
    static.sync()
    settle_all([member], [static])
    return static


def test_a_static_classic_member_that_lost_its_id_gets_what_it_had(coordinator: Coordinator) -> None:
    first = static_classic_member(coordinator)
    epoch = coordinator.group.epoch

    second = ClassicConsumer(coordinator, "b", instance_id="one")
    assert second.join().error is ErrorCode.NONE
    second.sync()

    assert second.owned == first.owned
    assert coordinator.group.epoch == epoch
    assert first.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_is_upgraded_in_its_place_and_back(coordinator: Coordinator) -> None:
    """It restarts with another protocol, and says nothing when it stops: only KIP-848 has a word for that."""
    before = static_classic_member(coordinator)
    epoch = coordinator.group.epoch

    upgraded = Member(coordinator, "upgraded", instance_id="one")
    upgraded.beat()

    assert upgraded.owned == before.partitions
    assert coordinator.group.epoch == epoch
    assert before.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    after = ClassicConsumer(coordinator, "b", instance_id="one")
    assert after.join().error is ErrorCode.UNRELEASED_INSTANCE_ID
    upgraded.leave(-2)
    assert after.join().error is ErrorCode.NONE
    after.sync()
    assert after.partitions == before.partitions
    assert coordinator.group.epoch == epoch


@pytest.mark.parametrize("policy", [MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE])
def test_the_last_static_member_that_comes_back_with_the_classic_protocol_converts_the_group_back(
    policy: MigrationPolicy,
) -> None:
    """A rolling restart of static members, which do not leave the group: no other event would convert it."""
    coordinator = Coordinator(Topics(orders=6), ConsumerSettings(migration_policy=policy))
    modern = Member(coordinator, "upgraded", instance_id="one")
    other = ClassicConsumer(coordinator, "b")
    settle(modern)
    other.join()
    other.sync()
    settle_all([modern], [other])
    epoch = coordinator.group.epoch

    modern.leave(-2)
    after = ClassicConsumer(coordinator, "a", instance_id="one")
    assert after.join().error is ErrorCode.NONE

    if policy is MigrationPolicy.UPGRADE:
        assert kind(coordinator) is GroupKind.CONSUMER
        return
    group = coordinator.shard.directory.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    assert after.sync().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert other.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert other.join() is DEFERRED
    assert after.join() is DEFERRED
    assert [consumer.answers.pop().generation for consumer in (other, after)] == [epoch + 1] * 2
    restarted = coordinator.reload().directory.groups[GROUP]
    assert isinstance(restarted, ClassicGroup)
    assert restarted.members.keys() == {other.member_id, after.member_id}


def test_a_static_member_that_converts_the_group_back_with_another_subscription_fences_nobody() -> None:
    """Its topics were named by a pattern before, for instance: the classic protocol has none."""
    coordinator = Coordinator(Topics(orders=6, refunds=2))
    modern = Member(coordinator, "upgraded", instance_id="one")
    other = ClassicConsumer(coordinator, "b")
    settle(modern)
    other.join()
    other.sync()
    settle_all([modern], [other])
    epoch, committer = coordinator.group.epoch, Committer(other.member_id, other.generation)

    modern.leave(-2)
    after = ClassicConsumer(coordinator, "a", instance_id="one", topics=("orders", "refunds"))
    assert after.join().error is ErrorCode.NONE

    group = coordinator.shard.directory.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    assert group.validate_offset_commit(committer, transactional=False, api_version=9) is ErrorCode.NONE
    assert other.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert after.sync().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (other.join(), after.join()) == (DEFERRED, DEFERRED)
    assert [consumer.answers.pop().generation for consumer in (other, after)] == [epoch + 1] * 2
    restarted = coordinator.reload().directory.groups[GROUP]
    assert isinstance(restarted, ClassicGroup)
    assert restarted.members.keys() == {other.member_id, after.member_id}


def test_the_classic_api_is_not_for_members_that_speak_kip_848(coordinator: Coordinator) -> None:
    (member,) = members_of(coordinator, 1)
    settle(member)
    intruder = ClassicConsumer(coordinator, "a", member_id="member-0", generation=member.epoch)

    assert intruder.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert intruder.sync().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert intruder.leave() is ErrorCode.UNKNOWN_MEMBER_ID
