"""UpdateFeatures and the reassignment of replicas: what a cluster of one answers to the tools that ask."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from semel.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from semel.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.raw_client import RawClient

UPGRADE, SAFE_DOWNGRADE = 1, 2
TRANSACTIONS = "transaction.version"


def reassign(client: RawClient, *partitions: tuple[str, int, list[int] | None]) -> list[tuple[str, int, int]]:
    topics = [ReassignableTopic(name, [ReassignablePartition(index, to)]) for name, index, to in partitions]
    request = AlterPartitionReassignmentsRequest(topics=topics)
    response = client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    assert response.error_code == 0
    return [
        (topic.name, one.partition_index, one.error_code) for topic in response.responses for one in topic.partitions
    ]


def test_each_partition_of_a_reassignment_has_its_own_result(client: RawClient, topic: str) -> None:
    asked = ((topic, 0, [1]), (topic, 0, [7]), (topic, 0, None), (topic, 9, [1]), ("absent", 0, [1]))
    assert reassign(client, *asked) == [
        (topic, 0, ErrorCode.NONE),
        (topic, 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic, 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (topic, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("absent", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_no_reassignment_is_ever_under_way(client: RawClient, topic: str) -> None:
    for topics in (None, [ListPartitionReassignmentsTopics(topic, [0])]):
        response = client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest(topics=topics))
        assert (response.error_code, response.topics) == (0, [])


@pytest.mark.parametrize(
    ("update", "code", "said"),
    [
        (FeatureUpdateKey(TRANSACTIONS, 2), ErrorCode.NONE, None),
        (FeatureUpdateKey(TRANSACTIONS, 3), ErrorCode.INVALID_UPDATE_VERSION, "only supports versions 0-2"),
        (FeatureUpdateKey("bogus.version", 1), ErrorCode.INVALID_UPDATE_VERSION, "does not support this feature"),
        (FeatureUpdateKey(TRANSACTIONS, 1), ErrorCode.INVALID_UPDATE_VERSION, "Can't downgrade"),
        (
            FeatureUpdateKey(TRANSACTIONS, 1, upgrade_type=SAFE_DOWNGRADE),
            ErrorCode.INVALID_UPDATE_VERSION,
            "made with transaction.version=2",
        ),
    ],
)
def test_a_feature_keeps_its_level(client: RawClient, update: FeatureUpdateKey, code: ErrorCode, said: str) -> None:
    accepted = FeatureUpdateKey("group.version", 1)
    last = client.call(ApiKey.UPDATE_FEATURES, 2, UpdateFeaturesRequest(feature_updates=[accepted, update]))
    assert (last.error_code, last.results) == (code, [])
    assert said is None or said in last.error_message

    earlier = client.call(ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(feature_updates=[accepted, update]))
    assert [(one.feature, one.error_code) for one in earlier.results] == [("group.version", 0), (update.feature, code)]
    assert said is None or said in earlier.results[1].error_message


def test_the_first_version_says_otherwise_that_a_downgrade_is_meant(client: RawClient) -> None:
    update = FeatureUpdateKey(TRANSACTIONS, 1, allow_downgrade=True)
    (result,) = client.call(ApiKey.UPDATE_FEATURES, 0, UpdateFeaturesRequest(feature_updates=[update])).results
    assert "made with transaction.version=2" in result.error_message
