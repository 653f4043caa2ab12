"""Bugs planted one by one into the consumer protocol: a walk that checks the laws at every step must see each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from random import Random
from types import ModuleType
from typing import Any

import pytest

from semel.coordinator.group.consumer import admission, groups, progress, reconciliation, subscription
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import CurrentAssignment, MemberState
from semel.coordinator.group.consumer.requests import Heartbeat
from semel.errors import ErrorCode
from tests.unit.coordinator.group.consumer.simulated_group import GROUP, Coordinator, Member, Topics, settle, state_of

STEPS = 150
SEEDS = 4
ACTIONS = ["join"] * 3 + ["beat"] * 8 + ["say nothing"] * 3
ACTIONS += ["revoke", "lose", "leave", "die", "time", "grow", "restart"]


def walk(seed: int) -> None:
    """Members come, hesitate, lose answers, leave and die while topics grow; in the end everybody is content."""
    random = Random(seed)
    coordinator = Coordinator(Topics(orders=5, payments=2))
    members: list[Member] = []
    epochs: dict[str, int] = {}
    for step in range(STEPS):
        action = random.choice(ACTIONS) if members else "join"
        if action == "join" and len(members) < 4:
            topics = random.choice([("orders",), ("orders", "payments")])
            members.append(Member(coordinator, f"member-{step}", topics=topics, hesitates=random.random() < 0.5))
            members[-1].beat()
        else:
            act(action, coordinator, members, random.choice(members), random)
        check(coordinator, members, epochs, replays=step % 5 == 0)
    quiet(coordinator, members)


def act(action: str, coordinator: Coordinator, members: list[Member], member: Member, random: Random) -> None:
    match action:
        case "beat":
            member.beat()
        case "say nothing" if member.epoch:
            member.beat(claimed=None)
        case "revoke":
            member.revoke()
        case "lose":
            before = member.epoch, member.owned, member.told
            member.beat()
            member.epoch, member.owned, member.told = before
        case "leave":
            members.remove(member)
            member.leave()
        case "die":
            members.remove(member)
        case "time":
            coordinator.pass_time(random.choice([100, 20_000]))
        case "grow":
            grow(coordinator)
        case "restart":
            coordinator.restart()


def grow(coordinator: Coordinator) -> None:
    topic = coordinator.topics.by_name("orders")
    assert topic is not None
    coordinator.topics.grow("orders", topic.partition_count + 1)


def check(coordinator: Coordinator, members: list[Member], epochs: dict[str, int], *, replays: bool) -> None:
    found = coordinator.shard.directory.groups.get(GROUP)
    if not isinstance(found, ConsumerGroup):
        return
    assert found.epoch >= epochs.get("group", 0), "law 1"
    epochs["group"] = found.epoch
    owned = [partition for current in found.current.values() for partition in current.assigned | current.revoking]
    assert len(owned) == len(set(owned)), "law 3"
    assert set(found.current) <= set(found.members)
    held: list[Any] = []
    for member in members:
        if member.member_id in found.members and member.epoch == found.assignment(member.member_id).epoch:
            held += member.owned
            assert member.epoch >= epochs.get(member.member_id, 0), "law 1"
            epochs[member.member_id] = member.epoch
    assert len(held) == len(set(held)), "law 3, as the members see it"
    if replays:
        assert state_of(coordinator.reload()) == state_of(coordinator.shard), "the state is the replay of the log"


def quiet(coordinator: Coordinator, members: list[Member]) -> None:
    for _ in range(10):  # Those who died are found out meanwhile.
        coordinator.pass_time(5000)
        for member in members:
            member.hesitates = False
            member.revoke()
            member.beat()
    if not members:
        return
    grow(coordinator)
    settle(*members)
    assert all(member.owned for member in members), "there are more partitions than members"
    assert set(coordinator.group.members) == {member.member_id for member in members}
    orders = coordinator.topics.partitions("orders")
    assert orders <= set().union(*(member.owned for member in members))


def planted(module: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    @contextmanager
    def plant() -> Iterator[None]:
        sound = getattr(module, name)
        setattr(module, name, make(sound))
        try:
            yield
        finally:
            setattr(module, name, sound)

    return plant()


def gives_away_what_others_hold(reconciled: Any) -> Any:
    return lambda current, **known: reconciled(current, **{**known, "owners": {}})


def takes_silence_for_revocation(holds: Any) -> Any:
    return lambda claimed, partitions: claimed is not None and holds(claimed, partitions)


def asks_nobody_to_revoke(holds: Any) -> Any:
    return lambda claimed, partitions: False


def forgets_what_is_being_given_up(put_current: Any) -> Any:
    def put(self: ConsumerGroup, member_id: str, current: CurrentAssignment | None) -> None:
        put_current(self, member_id, current)
        if current is not None:
            for partition in current.revoking:
                self.owners.pop(partition, None)

    return put


def moves_to_the_target_epoch_before_revoking(reconciled: Any) -> Any:
    def hasty(current: CurrentAssignment, **known: Any) -> Any:
        after = reconciled(current, **known)
        if after is not None and after.state is MemberState.UNREVOKED_PARTITIONS:
            return replace(after, state=MemberState.STABLE, epoch=known["target_epoch"], revoking=frozenset())
        return after

    return hasty


def keeps_the_claims_of_who_is_gone(forget: Any) -> Any:
    def forgetful(draft: Any, member_id: str) -> None:
        current = draft.group.current.get(member_id)
        forget(draft, member_id)
        if current is not None:
            draft.write(current)

    return forgetful


def raises_no_epoch(advance: Any) -> Any:
    def lazy(draft: Any, topics: Any, **options: Any) -> None:
        if not draft.group.epoch:
            advance(draft, topics, **options)

    return lazy


def sees_no_change_of_topics(metadata_hash: Any) -> Any:
    return lambda topics: 0


def lets_in_any_epoch(refusal: Any) -> Any:
    def careless(found: ConsumerGroup, beat: Heartbeat) -> None:
        return None

    return careless


def forgets_the_previous_epoch(following: Any) -> Any:
    return lambda current, *known: replace(following(current, *known), previous_epoch=0)


BUGS: list[tuple[Any, str, Callable[[Any], Any]]] = [
    (progress, "reconciled", gives_away_what_others_hold),
    (reconciliation, "_holds", takes_silence_for_revocation),
    (reconciliation, "_holds", asks_nobody_to_revoke),
    (ConsumerGroup, "_put_current", forgets_what_is_being_given_up),
    (progress, "reconciled", moves_to_the_target_epoch_before_revoking),
    (groups, "forget_member", keeps_the_claims_of_who_is_gone),
    (progress, "advance_epoch", raises_no_epoch),
    (subscription, "_metadata_hash", sees_no_change_of_topics),
]


def run() -> None:
    for seed in range(SEEDS):
        walk(seed)


def test_without_a_bug_every_walk_ends_well() -> None:
    run()


@pytest.mark.parametrize(("module", "name", "bug"), BUGS, ids=[bug.__name__ for _, _, bug in BUGS])
def test_a_planted_bug_is_seen(module: ModuleType, name: str, bug: Callable[[Any], Any]) -> None:
    with planted(module, name, bug), pytest.raises(AssertionError):
        run()


def test_a_member_of_another_epoch_that_is_let_in_is_seen() -> None:
    """What a walk of honest members cannot show: a zombie that goes on as if nothing had happened."""

    def zombie() -> None:
        coordinator = Coordinator(Topics(orders=2))
        member = Member(coordinator, "member")
        settle(member)
        assert member.beat(member_epoch=7).error is ErrorCode.FENCED_MEMBER_EPOCH

    zombie()
    with planted(admission, "_refusal_of_epoch", lets_in_any_epoch), pytest.raises(AssertionError):
        zombie()


def test_an_answer_lost_at_the_wrong_time_is_seen() -> None:
    def lost() -> None:
        coordinator = Coordinator(Topics(orders=2))
        first, second = Member(coordinator, "first"), Member(coordinator, "second")
        first.beat()
        before = first.epoch
        settle(first, second)
        assert first.beat(member_epoch=before).error is ErrorCode.NONE

    lost()
    with planted(reconciliation, "_following", forgets_the_previous_epoch), pytest.raises(AssertionError):
        lost()
