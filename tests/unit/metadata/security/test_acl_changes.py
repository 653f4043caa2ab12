"""Refusals of ACLs, in Kafka's words, and what is too much for one request."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.metadata.controller import MetadataDecision, Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.security.acl_changes import COMPARISONS_MAX, AclResult, create_acls, delete_acls, describe_acls
from semel.metadata.security.image import AclsAltered
from semel.security.acls import AclBinding, AclFilter
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
READ, WRITE = AclOperation.READ, AclOperation.WRITE
NOTHING = ClusterImage("cluster")
COLON_MISSING = (
    "Could not parse principal from `alice` (no colon is present separating the principal type from the principal name)"
)


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (AclBinding(AclResourceType.UNKNOWN, "a", "User:alice", READ), "Invalid resourceType UNKNOWN"),
        (AclBinding(AclResourceType.ANY, "a", "User:alice", READ), "Invalid resourceType ANY"),
        (
            AclBinding(CLUSTER, "a", "User:alice", READ),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (AclBinding(TOPIC, "", "User:alice", READ), "Invalid empty resource name"),
        (
            AclBinding(TOPIC, "a", "User:alice", READ, pattern_type=AclPatternType.MATCH),
            "Invalid patternType MATCH",
        ),
        (AclBinding(TOPIC, "a", "User:alice", READ, pattern_type=AclPatternType.ANY), "Invalid patternType ANY"),
        (AclBinding(TOPIC, "a", "User:alice", AclOperation.ANY), "Invalid operation ANY"),
        (AclBinding(TOPIC, "a", "User:alice", READ, AclPermission.ANY), "Invalid permissionType ANY"),
        (
            AclBinding(TOPIC, "a", "alice", READ),
            COLON_MISSING,
        ),
    ],
)
def test_a_bad_binding_is_refused_and_the_good_one_beside_it_is_not(binding: AclBinding, message: str) -> None:
    good = AclBinding(TOPIC, "orders", "User:alice", READ)
    assert create_acls(NOTHING, [binding, good]) == MetadataDecision(
        (AclsAltered(good.pattern, frozenset({good.rule})),),
        (AclResult(refusal=Refusal(ErrorCode.INVALID_REQUEST, message)), AclResult()),
    )


@pytest.mark.parametrize(
    ("matching", "message"),
    [
        (AclFilter(AclResourceType.UNKNOWN), "Unknown patternFilter."),
        (AclFilter(pattern_type=AclPatternType.UNKNOWN), "Unknown patternFilter."),
        (AclFilter(operation=AclOperation.UNKNOWN), "Unknown entryFilter."),
        (AclFilter(permission=AclPermission.UNKNOWN), "Unknown entryFilter."),
    ],
)
def test_a_filter_with_an_element_that_is_not_known_is_refused(matching: AclFilter, message: str) -> None:
    (result,) = delete_acls(NOTHING, [matching]).results
    assert result == AclResult(refusal=Refusal(ErrorCode.INVALID_REQUEST, message))
    with pytest.raises(KafkaError, match=message):
        describe_acls(NOTHING, matching)


def test_rules_of_one_pattern_are_one_change_and_a_rule_that_is_there_is_none() -> None:
    read, write = (AclBinding(TOPIC, "orders", "User:alice", operation) for operation in (READ, WRITE))
    image = NOTHING.apply(create_acls(NOTHING, [read]).changes)

    decision = create_acls(image, [write, read, write])

    assert decision == MetadataDecision(
        (AclsAltered(read.pattern, frozenset({read.rule, write.rule})),), (AclResult(), AclResult(), AclResult())
    )
    assert create_acls(image.apply(decision.changes), [read, write]).changes == ()


def test_many_filters_over_many_patterns_are_refused_unless_they_name_their_patterns() -> None:
    bindings = [AclBinding(TOPIC, f"t{number}", "User:alice", READ) for number in range(1000)]
    image = NOTHING.apply(create_acls(NOTHING, bindings).changes)
    named = [AclFilter(TOPIC, one.resource_name, pattern_type=AclPatternType.LITERAL) for one in bindings]
    searching = [AclFilter(principal="User:alice")] * (COMPARISONS_MAX // 1000 + 1)

    assert len(delete_acls(image, named).changes) == 1000
    assert len(delete_acls(image, searching[:1]).changes) == 1000
    refused = delete_acls(image, searching)
    assert refused.changes == ()
    assert {result.refusal.code for result in refused.results if result.refusal} == {ErrorCode.POLICY_VIOLATION}
