"""What a member may pin in memory, and that it is given back when the member is gone."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from semel.coordinator.decision import Waiter
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.requests import JoinRequest, OfferedProtocol
from semel.coordinator.group.member_size import COUNTED_FROM_BYTES, GROUP_BYTES_MAX, MEMBER_BYTES_MAX
from semel.errors import ErrorCode
from semel.wire.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tests.unit.coordinator.group.classic.bench import INITIAL_DELAY_MS, SESSION_MS, Bench, joined
from tests.unit.coordinator.group.consumer.simulated_group import GROUP, Coordinator, Member


@pytest.fixture
def bench() -> Bench:
    return Bench()


def offered(size_bytes: int) -> tuple[OfferedProtocol, ...]:
    return (OfferedProtocol("range", bytes(size_bytes - len("range"))),)


def pinned_bytes(bench: Bench) -> int:
    groups = (group for group in bench.shard.directory if isinstance(group, ClassicGroup))
    return sum(
        len(member.assignment) + sum(len(protocol.metadata) for protocol in member.protocols)
        for group in groups
        for member in group.members.values()
    )


def test_a_member_that_offers_too_much_is_refused_for_good(bench: Bench) -> None:
    for version in (3, 9):
        assert bench.join(protocols=offered(MEMBER_BYTES_MAX + 1), version=version).error is ErrorCode.INVALID_REQUEST
    assert pinned_bytes(bench) == 0
    assert bench.join_v3(protocols=offered(MEMBER_BYTES_MAX)).answer is None, "it waits for the others"


def test_many_protocols_count_together(bench: Bench) -> None:
    many = tuple(OfferedProtocol(f"p{number}", bytes(MEMBER_BYTES_MAX // 100)) for number in range(100))
    assert bench.join_v3(protocols=many).error is ErrorCode.INVALID_REQUEST


def test_a_group_takes_no_more_than_it_may_and_members_that_leave_make_room(bench: Bench) -> None:
    fitting = GROUP_BYTES_MAX // MEMBER_BYTES_MAX
    joins = [bench.join_v3(protocols=offered(MEMBER_BYTES_MAX)) for _ in range(fitting)]
    late = bench.join_v3(protocols=offered(MEMBER_BYTES_MAX))
    assert late.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert pinned_bytes(bench) <= GROUP_BYTES_MAX
    assert bench.join_v3(protocols=offered(COUNTED_FROM_BYTES)).answer is None, "a usual member may always join"

    while joins[0].answer is None:
        bench.pass_ms(INITIAL_DELAY_MS)
    bench.leave(*(joined(join).member_id for join in joins))
    assert bench.join_v3(protocols=offered(MEMBER_BYTES_MAX)).answer is None


def test_a_member_that_joins_again_does_not_count_twice(bench: Bench) -> None:
    fitting = GROUP_BYTES_MAX // MEMBER_BYTES_MAX
    ids = bench.form(fitting, protocols=offered(MEMBER_BYTES_MAX))
    again = bench.join(ids[0], protocols=offered(MEMBER_BYTES_MAX))
    assert again.answer is None or again.error is ErrorCode.NONE


def test_what_members_that_are_gone_had_pinned_is_given_back(bench: Bench) -> None:
    bench.form(4, protocols=offered(MEMBER_BYTES_MAX))
    assert pinned_bytes(bench) >= 4 * (MEMBER_BYTES_MAX - 10)
    bench.pass_ms(SESSION_MS + 1)
    bench.pass_ms(SESSION_MS + 1)
    assert pinned_bytes(bench) == 0


def test_an_assignment_that_is_too_large_is_refused_to_the_leader(bench: Bench) -> None:
    joins = [bench.join_v3() for _ in range(2)]
    while any(join.answer is None for join in joins):
        bench.pass_ms(INITIAL_DELAY_MS)
    ids = [joined(join).member_id for join in joins]
    leader, generation = bench.leader, bench.group.generation
    too_large = {ids[0]: bytes(MEMBER_BYTES_MAX + 1)}
    assert bench.sync(leader, generation, too_large).error is ErrorCode.INVALID_REQUEST
    in_sum = {f"{ids[0]}-{n}": bytes(MEMBER_BYTES_MAX) for n in range(GROUP_BYTES_MAX // MEMBER_BYTES_MAX + 1)}
    assert bench.sync(leader, generation, in_sum).error is ErrorCode.INVALID_REQUEST
    assert pinned_bytes(bench) < COUNTED_FROM_BYTES
    assert bench.sync(leader, generation, {ids[0]: bytes(COUNTED_FROM_BYTES * 2)}).error is ErrorCode.NONE


def test_a_subscription_that_is_too_large_is_refused() -> None:
    coordinator = Coordinator()
    names = [f"{number:06}" + "x" * 1018 for number in range(MEMBER_BYTES_MAX // 1024 + 1)]
    answer = Member(coordinator, "member", topics=names).beat()
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert str(MEMBER_BYTES_MAX) in (answer.message or "")
    assert coordinator.log == []


def test_the_subscriptions_of_a_group_are_limited_together() -> None:
    coordinator = Coordinator()
    names = [f"{number:06}" + "x" * 1018 for number in range(MEMBER_BYTES_MAX // 1024)]
    for number in range(GROUP_BYTES_MAX // MEMBER_BYTES_MAX):
        assert Member(coordinator, f"member-{number}", topics=names).beat().error is ErrorCode.NONE
    assert Member(coordinator, "late", topics=names).beat().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert Member(coordinator, "usual", topics=("orders",)).beat().error is ErrorCode.NONE


def test_classic_members_of_a_consumer_group_are_limited_together_too() -> None:
    coordinator = Coordinator()
    Member(coordinator, "member").beat()
    subscription = ConsumerProtocolSubscription(["orders"], user_data=bytes(MEMBER_BYTES_MAX - 100))
    request = JoinRequest(
        GROUP,
        "",
        None,
        client_id="client",
        client_host="/10.0.0.1",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=(OfferedProtocol("range", encode_subscription(subscription)),),
        uuid=UUID(int=0),
        knows_required_id=False,
    )
    errors: list[object] = []
    for number in range(GROUP_BYTES_MAX // MEMBER_BYTES_MAX + 1):
        one = replace(request, uuid=UUID(int=number))
        waiter: Waiter[object] = Waiter(errors.append, refused=errors.append)
        errors.append(coordinator.carry_out(coordinator.shard.join_group(one, waiter, coordinator.moment)).error)
    assert errors[-2:] == [ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
