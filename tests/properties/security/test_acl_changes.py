"""Creating, deleting and describing ACLs beside a set of bindings that is changed naively."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ErrorCode
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import ClusterImage
from semel.metadata.security.acl_changes import AclResult, create_acls, delete_acls, describe_acls
from semel.metadata.security.image import AclsAltered, security_of
from semel.security.acls import AclBinding, AclFilter
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

NAMES = ("a", "ab", "abc", "*", "kafka-cluster", "")
TYPES = (AclResourceType.TOPIC, AclResourceType.CLUSTER, AclResourceType.ANY, AclResourceType.UNKNOWN)
PRINCIPALS = ("User:alice", "User:*", "alice")
HOSTS = ("*", "10.0.0.1")
OPERATIONS = (AclOperation.READ, AclOperation.ALL, AclOperation.ANY, AclOperation.UNKNOWN)

BINDINGS = st.builds(
    AclBinding,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(AclPermission),
    st.sampled_from(HOSTS),
    st.sampled_from(AclPatternType),
)
GOOD = st.builds(
    AclBinding,
    st.just(AclResourceType.TOPIC),
    st.sampled_from(NAMES[:4]),
    st.sampled_from(PRINCIPALS[:2]),
    st.sampled_from(OPERATIONS[:2]),
    st.sampled_from((AclPermission.ALLOW, AclPermission.DENY)),
    st.sampled_from(HOSTS),
    st.sampled_from((AclPatternType.LITERAL, AclPatternType.PREFIXED)),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from(TYPES),
    st.sampled_from((None, *NAMES)),
    st.sampled_from((None, *PRINCIPALS)),
    st.sampled_from(OPERATIONS),
    st.sampled_from(AclPermission),
    st.sampled_from((None, *HOSTS)),
    st.sampled_from(AclPatternType),
)
# Those that leave most open find something.
WIDE = st.builds(
    AclFilter,
    st.just(AclResourceType.TOPIC),
    st.sampled_from((None, *NAMES)),
    st.sampled_from((None, "User:alice")),
    host=st.sampled_from((None, "*")),
    pattern_type=st.sampled_from(AclPatternType),
)
CREATIONS = st.lists(st.one_of(GOOD, GOOD, BINDINGS), max_size=12)


def is_good(binding: AclBinding) -> bool:
    return (
        binding.resource_type not in (AclResourceType.UNKNOWN, AclResourceType.ANY)
        and binding.pattern_type in (AclPatternType.LITERAL, AclPatternType.PREFIXED)
        and binding.operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
        and binding.permission in (AclPermission.ALLOW, AclPermission.DENY)
        and binding.resource_name != ""
        and (binding.resource_type != AclResourceType.CLUSTER or binding.resource_name == "kafka-cluster")
        and ":" in binding.principal
    )


def is_known(matching: AclFilter) -> bool:
    return 0 not in (matching.resource_type, matching.pattern_type, matching.operation, matching.permission)


def is_matched(matching: AclFilter, binding: AclBinding) -> bool:
    """Kafka's filter, field by field: ANY is 1, and an absent text matches every text."""
    if matching.resource_type not in (1, binding.resource_type):
        return False
    if matching.operation not in (1, binding.operation) or matching.permission not in (1, binding.permission):
        return False
    if matching.principal not in (None, binding.principal) or matching.host not in (None, binding.host):
        return False
    if matching.pattern_type not in (AclPatternType.ANY, AclPatternType.MATCH, binding.pattern_type):
        return False
    if matching.resource_name in (None, binding.resource_name):
        return True
    if matching.pattern_type != AclPatternType.MATCH:
        return False
    if binding.pattern_type == AclPatternType.PREFIXED:
        return str(matching.resource_name).startswith(binding.resource_name)
    return binding.resource_name == "*"


def applied(image: ClusterImage, decision: MetadataDecision[AclResult]) -> ClusterImage:
    """After the changes, of which there is one for each pattern at most."""
    patterns = Counter(change.pattern for change in decision.changes if isinstance(change, AclsAltered))
    assert len(patterns) == len(decision.changes)
    assert set(patterns.values()) <= {1}
    for change in decision.changes:
        assert isinstance(change, AclsAltered)
        assert change.rules != security_of(image).acls.rules(change.pattern), (
            "a change that changes nothing is written for nothing"
        )
    return image.apply(decision.changes)


@given(
    st.lists(st.one_of(CREATIONS, st.lists(st.one_of(FILTERS, WIDE), min_size=1, max_size=4)), max_size=6),
    st.one_of(FILTERS, WIDE),
)
def test_acls_are_those_of_a_set_that_is_changed_naively(
    steps: list[list[AclBinding | AclFilter]], asked: AclFilter
) -> None:
    image, model = ClusterImage("cluster"), set[AclBinding]()
    for step in steps:
        bindings = [one for one in step if isinstance(one, AclBinding)]
        filters = [one for one in step if isinstance(one, AclFilter)]
        if bindings:
            decision = create_acls(image, bindings)
            model.update(filter(is_good, bindings))
            assert [result.refusal is None for result in decision.results] == list(map(is_good, bindings))
        else:
            decision = delete_acls(image, filters)
            matched = [{one for one in model if is_known(each) and is_matched(each, one)} for each in filters]
            assert [set(result.found) for result in decision.results] == matched
            assert [len(result.found) for result in decision.results] == list(map(len, matched))
            assert [result.refusal is None for result in decision.results] == list(map(is_known, filters))
            model.difference_update(*matched)
        for result in decision.results:
            assert result.refusal is None or result.refusal.code is ErrorCode.INVALID_REQUEST
        image = applied(image, decision)
        assert set(security_of(image).acls.bindings()) == model
    if is_known(asked):
        described = describe_acls(image, asked)
        assert set(described) == {one for one in model if is_matched(asked, one)}
        assert list(described) == sorted(described, key=lambda one: (one.pattern, one.rule))
