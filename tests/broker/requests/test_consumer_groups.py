"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from semel.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.raw_client import RawClient


@pytest.fixture
def client() -> Iterator[RawClient]:
    with Broker() as broker, RawClient(broker.port) as client:
        find_coordinator(client)
        yield client


def find_coordinator(client: RawClient) -> None:
    """As every client does first: it makes the internal topic."""
    found = client.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    assert [coordinator.error_code for coordinator in found.coordinators] == [ErrorCode.NONE]


def create_topic(client: RawClient) -> UUID:
    created = client.call(
        ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("orders", 2, 1)], timeout_ms=5000)
    )
    topic_id: UUID = created.topics[0].topic_id
    return topic_id


def heartbeat(client: RawClient, version: int = 1, **fields: object) -> ConsumerGroupHeartbeatResponse:
    defaults: dict[str, object] = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1000}
    defaults |= {"subscribed_topic_names": ["orders"], "topic_partitions": []}
    request = ConsumerGroupHeartbeatRequest(**{**defaults, **fields})  # type: ignore[arg-type]
    response: ConsumerGroupHeartbeatResponse = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)
    return response


def describe(client: RawClient, group_id: str, **fields: bool) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest([group_id], **fields)
    response: ConsumerGroupDescribeResponse = client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request)
    return response.groups[0]


def test_a_member_joins_stays_and_leaves(client: RawClient) -> None:
    topic_id = create_topic(client)

    assert heartbeat(client) == ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=1,
        heartbeat_interval_ms=5000,
        assignment=Assignment([TopicPartitions(topic_id, [0, 1])]),
    )
    stays = heartbeat(
        client, member_epoch=1, rebalance_timeout_ms=-1, subscribed_topic_names=None, topic_partitions=None
    )
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (ErrorCode.NONE, 1, None)
    assert heartbeat(client, member_epoch=-1).member_epoch == -1
    assert describe(client, "g").group_state == "Empty"


def test_in_version_0_the_broker_gives_the_member_its_id(client: RawClient) -> None:
    first, second = heartbeat(client, 0, member_id=""), heartbeat(client, 0, member_id="")

    assert first.member_id
    assert second.member_id
    assert first.member_id != second.member_id
    assert heartbeat(client, 1, member_id="").error_code == ErrorCode.INVALID_REQUEST


def test_a_refusal_says_why(client: RawClient) -> None:
    refused = heartbeat(client, server_assignor="mine")

    assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (refused.error_message or "")


def test_a_group_is_described_with_its_members(client: RawClient) -> None:
    topic_id = create_topic(client)
    heartbeat(client)

    group = describe(client, "g", include_authorized_operations=True)

    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 1, 1)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", 1 << 3 | 1 << 6 | 1 << 8 | 3 << 10)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.member_type) == ("m", 1, 1)
    assert member.client_host.startswith("/")
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (topic_id, "orders", [0, 1])
    assert member.target_assignment == member.assignment


def test_an_unknown_group_is_not_found(client: RawClient) -> None:
    unknown = describe(client, "nobody")

    assert (unknown.error_code, unknown.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "nobody")
    assert heartbeat(client, group_id="nobody", member_epoch=3).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_empty_id_is_no_consumer_group_s(client: RawClient) -> None:
    """Unlike a classic group, as in Kafka."""
    described = describe(client, "")
    assert (described.error_code, described.group_id) == (ErrorCode.INVALID_GROUP_ID, "")


def test_no_groups_are_described_by_no_answer_too_many(client: RawClient) -> None:
    response = client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([]))

    assert response.groups == []


@pytest.mark.parametrize("level", [0, 1])
def test_the_protocol_that_is_offered_is_a_setting(level: int) -> None:
    with Broker(group_version=level) as broker, RawClient(broker.port) as client:
        answer = client.call(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("raw", "1"))
        finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert finalized.get("group.version") == (level or None)
        find_coordinator(client)
        expected = ErrorCode.NONE if level else ErrorCode.UNSUPPORTED_VERSION
        assert heartbeat(client).error_code == expected


def test_a_group_survives_its_broker(tmp_path: object) -> None:
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        find_coordinator(client)
        create_topic(client)
        joined = heartbeat(client)
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        again = heartbeat(client, member_epoch=joined.member_epoch, topic_partitions=[])
        assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, joined.member_epoch)
        assert again.assignment == joined.assignment
