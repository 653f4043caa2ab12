"""Every API in every version, asked by a client with random ACLs: the answer is the one of Kafka's rules, said naively.

All places of the answer are compared: what is refused, with which code, where; what is served; what is not named. So an
item that gets lost, a name that leaks and a right that is not asked for are seen alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.broker.requests.access.table import ACCESS
from semel.broker.requests.routes import SERVED
from semel.security.acls import AclBinding
from semel.security.authorizer import Authorizer
from semel.security.rights import DESCRIBE_CLUSTER, DESCRIBE_TRANSACTIONAL_ID, Right
from semel.wire.apis import ApiKey
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.broker.secured import ALICE, ROOT, SecuredBroker, secured_broker
from tests.properties.security.access_world import World, semel_world
from tests.properties.security.kafka_rules import RULES, VERSIONS
from tests.properties.security.test_acl_table import naive

HERE = "127.0.0.1"
NAMES = {
    AclResourceType.TOPIC: ("t-a", "t-ab", "t-x", "d-a", "d-ab", "d-x", "t-", "d-", "*"),
    AclResourceType.GROUP: ("g-a", "g-ab", "g-c", "g-x", "g-new", "g-", "*"),
    AclResourceType.TRANSACTIONAL_ID: ("i-a", "i-ab", "i-x", "i-new", "i-", "*"),
    AclResourceType.CLUSTER: ("kafka-cluster", "*", "another"),
}
OPERATIONS = [operation for operation in AclOperation if operation > AclOperation.ALL]
# Asked for where an answer tells what the client may do; and in version 0 FindCoordinator knows groups only.
UNIMPORTANT = {
    ApiKey.METADATA: {DESCRIBE_CLUSTER},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {Right(operation, AclResourceType.TOPIC) for operation in OPERATIONS},
    ApiKey.DESCRIBE_CLUSTER: {Right(operation, AclResourceType.CLUSTER) for operation in OPERATIONS},
    ApiKey.FIND_COORDINATOR: {DESCRIBE_TRANSACTIONAL_ID},
}
ALL_RIGHTS = [(operation, kind) for operation in (*OPERATIONS, AclOperation.ALL) for kind in NAMES]


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredBroker]:
    with secured_broker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture(scope="module")
def world(secured: SecuredBroker) -> World:
    return semel_world(secured)


@st.composite
def bindings(draw: st.DrawFn, about: tuple[tuple[AclOperation, AclResourceType], ...]) -> AclBinding:
    """Mostly of the rights that make a difference."""
    rights = about if about and draw(st.integers(0, 3)) else ALL_RIGHTS
    operation, kind = draw(st.sampled_from(rights))
    return AclBinding(
        kind,
        draw(st.sampled_from(NAMES[kind])),
        draw(st.sampled_from((ALICE, ALICE, "User:*", "User:bob"))),
        operation,
        draw(st.sampled_from((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY))),
        draw(st.sampled_from(("*", "*", HERE, "10.0.0.1"))),
        draw(st.sampled_from((AclPatternType.LITERAL, AclPatternType.PREFIXED))),
    )


def may_by(rules: list[AclBinding], operation: str, kind: str, name: str | None) -> bool:
    """``None`` for a name: whether there is one with which it is allowed. By no implied operation, as in Kafka."""
    asked = (ALICE, HERE, AclOperation[operation], AclResourceType[kind])
    if name is not None:
        return naive(rules, *asked, name, without_rule=False)
    named = [rule for rule in rules if rule.operation in (asked[2], AclOperation.ALL)]
    names = {rule.resource_name for rule in rules} | {rule.resource_name + "~" for rule in rules} | {"~"}
    return any(naive(named, *asked, name, without_rule=False) for name in names - {"*"})


def check(world: World, key: ApiKey, version: int, rules: list[AclBinding], variant: int) -> None:
    rule = RULES[key]
    rule.prepare(world)
    asked = rule.ask(world, version, variant % rule.variants)
    world.load(rules)
    answer = world.alice.call(key, version, asked.message)
    places = world.places(answer)
    assert places == asked.expected(lambda *right: may_by(rules, *right)), f"{asked.message}\n{answer}"


class Recording(Authorizer):
    """Allows what ``answers`` say, and remembers what it was asked."""

    def __init__(self, answers: Iterator[bool]) -> None:
        super().__init__()
        self.asked: set[Right] = set()
        self._answers = answers

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        if principal == ROOT:
            return True
        self.asked.add(Right(operation, resource_type))
        return next(self._answers)

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        return self.allows(principal, host, operation, resource_type, "")


def declared(key: ApiKey, version: int) -> set[Right]:
    access = ACCESS[key].in_version(version)
    needs = (*access.whole, *(access.items.needs if access.items is not None else ()))
    others = {right for need in needs for right in (need.instead, need.some) if right is not None}
    return {need.right for need in needs} | others | {decided.right for decided in access.checked_by_handler}


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", f"v{value}"))
def test_an_api_asks_for_the_rights_that_it_declares(
    secured: SecuredBroker, world: World, key: ApiKey, version: int
) -> None:
    """All of them, some time, and no other: so the table in the documentation is true."""
    node, rule, random = secured.node, RULES[key], Random(f"{key} {version}")
    real, asked = node.authorizer, set[Right]()
    for number in range(40 * rule.variants):
        rule.prepare(world)
        message = rule.ask(world, version, number % rule.variants).message
        chance = random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        node.authorizer = recording = Recording(random.random() < chance for _ in itertools.count())
        try:
            world.alice.call(key, version, message)
        finally:
            node.authorizer = real
        asked |= recording.asked
    allowed = UNIMPORTANT.get(key, set())
    assert asked | allowed == declared(key, version) | allowed


def test_every_api_has_a_rule() -> None:
    assert set(SERVED) <= RULES.keys()


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", f"v{value}"))
def test_every_answer_is_that_of_kafkas_rules(world: World, key: ApiKey, version: int) -> None:
    @settings(max_examples=10)
    @given(st.lists(bindings(RULES[key].about), max_size=8), st.integers(0, 11))
    def holds(rules: list[AclBinding], variant: int) -> None:
        check(world, key, version, rules, variant)

    holds()
