"""The table of ACLs beside Kafka's rules, said once more and naively."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from semel.security.acl_table import AclTable, Verdict
from semel.security.acls import AclBinding, AclRule, ResourcePattern
from semel.security.authorizer import Authorizer
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.executed_lines import lines_executed

OPERATIONS = [operation for operation in AclOperation if operation > AclOperation.ALL]
NAMES = ("a", "ab", "abc", "b", "*", "hardcode")
PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP)

BINDINGS = st.builds(
    AclBinding,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from(PRINCIPALS),
    st.sampled_from([*OPERATIONS, AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE]),
    st.sampled_from((AclPermission.ALLOW, AclPermission.DENY)),
    st.sampled_from(HOSTS),
    st.sampled_from((AclPatternType.LITERAL, AclPatternType.PREFIXED)),
)
ASKED = st.tuples(
    st.sampled_from(PRINCIPALS[:2]), st.sampled_from(HOSTS[1:]), st.sampled_from(OPERATIONS), st.sampled_from(TYPES)
)


def table_of(bindings: Collection[AclBinding]) -> AclTable:
    rules: dict[ResourcePattern, frozenset[AclRule]] = {}
    for binding in bindings:
        rules[binding.pattern] = rules.get(binding.pattern, frozenset()) | {binding.rule}
    return AclTable().altered(rules)


def authorizer_of(bindings: Collection[AclBinding], *, without_rule: bool = False) -> Authorizer:
    authorizer = Authorizer(super_users=("User:root",), allow_everyone_if_no_acl_found=without_rule)
    authorizer.load(table_of(bindings))
    return authorizer


def is_about(binding: AclBinding, kind: AclResourceType, name: str) -> bool:
    if binding.resource_type != kind:
        return False
    if binding.pattern_type == AclPatternType.PREFIXED:
        return name[: len(binding.resource_name)] == binding.resource_name
    return binding.resource_name in ("*", name)


def naive(
    bindings: Collection[AclBinding],
    principal: str,
    host: str,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
    *,
    without_rule: bool,
) -> bool:
    about = [binding for binding in bindings if is_about(binding, kind, name)]
    if not about:
        return without_rule
    for_client = [one for one in about if one.principal in ("User:*", principal) and one.host in ("*", host)]
    if any(
        one.permission == AclPermission.DENY and one.operation in (AclOperation.ALL, operation) for one in for_client
    ):
        return False
    enough = {operation, AclOperation.ALL}
    if operation == AclOperation.DESCRIBE:
        enough |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation == AclOperation.DESCRIBE_CONFIGS:
        enough.add(AclOperation.ALTER_CONFIGS)
    return any(one.permission == AclPermission.ALLOW and one.operation in enough for one in for_client)


@given(st.lists(BINDINGS, max_size=12), ASKED, st.sampled_from(NAMES), st.booleans())
def test_every_verdict_is_that_of_the_naive_statement(
    bindings: list[AclBinding],
    asked: tuple[str, str, AclOperation, AclResourceType],
    name: str,
    without_rule: bool,
) -> None:
    authorizer = authorizer_of(bindings, without_rule=without_rule)
    expected = naive(bindings, *asked, name, without_rule=without_rule)
    assert authorizer.allows(*asked, name) is expected
    assert authorizer.allows(*asked, name) is expected, "remembered"


@given(st.lists(BINDINGS, max_size=8), ASKED)
def test_some_resource_is_allowed_exactly_if_one_can_be_named(
    bindings: list[AclBinding], asked: tuple[str, str, AclOperation, AclResourceType]
) -> None:
    """Not by what is implied: Kafka asks here for the operation itself."""
    named = [one for one in bindings if one.operation in (asked[2], AclOperation.ALL)]
    # Every name that the patterns tell apart: themselves, and something longer, which no literal rule is about.
    names = {one.resource_name for one in bindings} | {one.resource_name + "~" for one in bindings} | {"~"}
    expected = any(naive(named, *asked, name, without_rule=False) for name in names - {"*"})
    assert authorizer_of(bindings).allows_some(*asked) is expected


@given(st.lists(BINDINGS), st.lists(BINDINGS))
def test_a_table_that_was_altered_is_the_one_made_of_the_result(
    before: list[AclBinding], after: list[AclBinding]
) -> None:
    old, new = table_of(before), table_of(after)
    patterns = {pattern for table in (old, new) for pattern, _ in table.items()}
    altered = old.altered({pattern: new.rules(pattern) for pattern in patterns})
    assert altered == new
    assert set(altered.bindings()) == set(after)
    assert len(altered) == len(set(after))
    again = altered.altered({pattern: old.rules(pattern) for pattern in patterns})
    assert again == old
    # Another table was made of it, and it is what it was.
    for one, other in ((altered, new), (again, old)):
        for principal in PRINCIPALS[:2]:
            some = (principal, HOSTS[1], AclOperation.READ, AclResourceType.TOPIC)
            assert one.allows_some(*some) is other.allows_some(*some)
            for name in NAMES:
                assert one.verdict(*some, name) is other.verdict(*some, name)


def of_ten_thousand(count: int) -> AclTable:
    """Literal and prefixed patterns, each with rules of users of its own; one user may write to a last one."""
    kinds = (AclPatternType.LITERAL, AclPatternType.PREFIXED)
    bindings = [
        AclBinding(
            AclResourceType.TOPIC,
            f"{number:06}-orders",
            f"User:{number % 50}",
            AclOperation.READ,
            pattern_type=kinds[number % 2],
        )
        for number in range(count)
    ]
    return table_of([*bindings, AclBinding(AclResourceType.TOPIC, "z", "User:alice", AclOperation.WRITE)])


def test_a_question_and_a_change_cost_the_same_with_ten_thousand_acls() -> None:
    asked = ("User:alice", "10.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC)
    change = AclBinding(AclResourceType.TOPIC, "y", "User:alice", AclOperation.WRITE)
    costs = []
    for count in (10, 10_000):
        table = of_ten_thousand(count)

        def ask(table: AclTable = table) -> None:
            assert table.allows_some(*asked)
            assert table.verdict(*asked, "000003-orders") is Verdict.DENIED
            altered = table.altered({change.pattern: frozenset({change.rule})})
            assert altered.verdict(*asked, "y") is Verdict.ALLOWED

        costs.append(lines_executed(ask, within="acl_table.py"))
    assert costs[0] == costs[1] < 200


@given(st.lists(BINDINGS), ASKED, st.sampled_from(NAMES))
def test_a_super_user_may_do_everything(
    bindings: list[AclBinding], asked: tuple[str, str, AclOperation, AclResourceType], name: str
) -> None:
    authorizer = authorizer_of(bindings)
    assert authorizer.allows("User:root", *asked[1:], name)
    assert authorizer.allows_some("User:root", *asked[1:])
