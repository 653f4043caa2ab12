"""Names that must not leak, and what a client is told that it may do."""

from __future__ import annotations

from typing import Any

import pytest

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.codes import AclOperation as Op
from semel.wire.codes import AclPatternType
from semel.wire.codes import AclResourceType as Of
from semel.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from semel.wire.messages.describe_cluster import DescribeClusterRequest
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from semel.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.raw_client import RawClient
from tests.broker.secured import BOB, SecuredBroker
from tests.broker.transactional_client import GROUP, find_coordinator

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def topics_of(client: RawClient) -> set[str]:
    return {topic.name for topic in client.call(ApiKey.METADATA, 9, MetadataRequest(None)).topics}


def bits(*operations: Op) -> int:
    return sum(1 << operation for operation in operations)


def test_an_answer_to_metadata_is_not_told_to_another_client(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str
) -> None:
    """The same bytes, asked by clients with other rights, before and after."""
    secured.allow(Op.DESCRIBE, Of.TOPIC, topic)
    bob = secured.client(BOB)
    for _ in range(2):
        assert topic in topics_of(root)
        assert topics_of(alice) == {topic}
        assert topics_of(bob) == set()


def test_a_change_of_the_acls_holds_from_the_next_request_on(
    secured: SecuredBroker, alice: RawClient, topic: str
) -> None:
    assert topics_of(alice) == set()
    secured.allow(Op.READ, Of.TOPIC, topic[:-1], pattern_type=AclPatternType.PREFIXED)
    assert topic in topics_of(alice)
    secured.deny(Op.DESCRIBE, Of.TOPIC, "*")
    assert topics_of(alice) == set()


def test_acls_are_there_after_a_restart(secured: SecuredBroker, topic: str) -> None:
    secured.allow(Op.DESCRIBE, Of.TOPIC, topic)
    secured.broker.restart(kill=True)
    assert topics_of(secured.client()) == {topic}


def test_a_topic_is_created_by_asking_for_it_only_with_create(
    secured: SecuredBroker, root: RawClient, alice: RawClient, name: str
) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)

    def ask() -> int:
        (told,) = alice.call(ApiKey.METADATA, 9, request).topics
        code: int = told.error_code
        return code

    secured.allow(Op.CREATE, Of.TOPIC, name)
    assert ask() == REFUSED, "without DESCRIBE"
    secured.forget_rules()
    secured.allow(Op.DESCRIBE, Of.TOPIC, name)
    assert ask() == REFUSED, "without CREATE"
    assert name not in topics_of(root)
    secured.allow(Op.CREATE, Of.CLUSTER)
    assert ask() == 0
    assert name in topics_of(root)


def test_no_cursor_names_a_topic_that_the_client_may_not_describe(
    secured: SecuredBroker, root: RawClient, alice: RawClient, name: str
) -> None:
    seen = [root.create_topic(f"{name}-{number}") for number in range(6)][::2]
    for each in seen:
        secured.allow(Op.DESCRIBE, Of.TOPIC, each)
    told: list[str] = []
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest([], 1, cursor)
        answer = alice.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        told += [topic.name for topic in answer.topics]
        cursor = answer.next_cursor
        if cursor is None:
            break
        assert cursor.topic_name in seen
    assert told == seen


# What the client may do


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_of_topics_and_the_cluster_are_true(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, version: int
) -> None:
    asked = MetadataRequest([MetadataRequestTopic(name=topic)], False, True, True)

    def told(client: RawClient) -> tuple[int, Any]:
        answer = client.call(ApiKey.METADATA, version, asked)
        return answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations

    of_cluster = bits(
        Op.CREATE,
        Op.ALTER,
        Op.DESCRIBE,
        Op.CLUSTER_ACTION,
        Op.DESCRIBE_CONFIGS,
        Op.ALTER_CONFIGS,
        Op.IDEMPOTENT_WRITE,
    )
    assert told(root) == (
        bits(
            Op.READ,
            Op.WRITE,
            Op.CREATE,
            Op.DELETE,
            Op.ALTER,
            Op.DESCRIBE,
            Op.DESCRIBE_CONFIGS,
            Op.ALTER_CONFIGS,
        ),
        of_cluster if version <= 10 else None,
    )
    secured.allow(Op.READ, Of.TOPIC, topic)
    secured.allow(Op.ALTER_CONFIGS, Of.TOPIC, "*")
    secured.allow(Op.CREATE, Of.CLUSTER)
    of_topic = bits(Op.READ, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS)
    assert told(alice) == (of_topic, 0 if version <= 10 else None), "without DESCRIBE none of the cluster's are told"
    secured.allow(Op.DESCRIBE, Of.CLUSTER)
    assert told(alice) == (of_topic, bits(Op.CREATE, Op.DESCRIBE) if version <= 10 else None)


def test_authorized_operations_of_descriptions_are_true(
    secured: SecuredBroker, alice: RawClient, topic: str, name: str
) -> None:
    secured.allow(Op.READ, Of.GROUP, name)
    secured.allow(Op.ALTER, Of.CLUSTER)
    secured.allow(Op.WRITE, Of.TOPIC, topic)
    find_coordinator(alice, name, GROUP)
    (group,) = alice.call(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([name], True)).groups
    assert group.authorized_operations == bits(Op.READ, Op.DESCRIBE)
    beat = ConsumerGroupHeartbeatRequest(name, "m", 0, None, None, 60_000, [topic], topic_partitions=[])
    assert alice.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, beat).error_code == 0
    asked = ConsumerGroupDescribeRequest([name], True)
    (group,) = alice.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, asked).groups
    assert group.authorized_operations == bits(Op.READ, Op.DESCRIBE)
    cluster = alice.call(ApiKey.DESCRIBE_CLUSTER, 0, DescribeClusterRequest(True))
    assert cluster.cluster_authorized_operations == bits(Op.ALTER, Op.DESCRIBE)
    (described,) = alice.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([], 10)).topics
    assert (described.name, described.topic_authorized_operations) == (topic, bits(Op.WRITE, Op.DESCRIBE))


@pytest.mark.parametrize("version", range(5, 8))
def test_the_settings_of_a_new_topic_are_told_only_with_describe_configs(
    secured: SecuredBroker, alice: RawClient, name: str, version: int
) -> None:
    secured.allow(Op.CREATE, Of.TOPIC, name)
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], validate_only=True)

    def told() -> tuple[int, int, int, bool]:
        (topic,) = alice.call(ApiKey.CREATE_TOPICS, version, request).topics
        assert topic.error_code == 0
        return topic.topic_config_error_code, topic.num_partitions, topic.replication_factor, bool(topic.configs)

    assert told() == (REFUSED, -1, -1, False)
    secured.allow(Op.DESCRIBE_CONFIGS, Of.TOPIC, name)
    assert told() == (0, 1, 1, True)


# Regular expressions


def test_a_regular_expression_means_topics_that_the_member_may_describe(
    secured: SecuredBroker, root: RawClient, alice: RawClient, name: str
) -> None:
    """It goes by the ACLs as they are with each heartbeat, and its topics are taken away with the right."""
    seen, hidden = (root.create_topic(f"{name}-{suffix}") for suffix in ("seen", "hidden"))
    ids = secured.node.image.topics
    secured.allow(Op.READ, Of.GROUP, name)
    secured.allow(Op.READ, Of.TOPIC, seen)
    find_coordinator(root, name, GROUP)
    epoch = 0

    def beat(owned: set[str]) -> set[str]:
        nonlocal epoch
        partitions = [TopicPartitions(ids[topic].id, [0]) for topic in sorted(owned)]
        request = ConsumerGroupHeartbeatRequest(
            name, "m", epoch, None, None, 60_000, None, f"{name}-.*", None, partitions
        )
        answer = alice.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        assert answer.error_code == 0, answer
        epoch = answer.member_epoch
        names = {topic.id: topic_name for topic_name, topic in ids.items()}
        return {names[topic.topic_id] for topic in answer.assignment.topic_partitions}

    assert beat(set()) == {seen}
    secured.allow(Op.DESCRIBE, Of.TOPIC, hidden)
    assert beat({seen}) == {seen, hidden}
    secured.deny(Op.DESCRIBE, Of.TOPIC, hidden)
    assert beat({seen, hidden}) == {seen}


# Large requests


def test_a_large_request_is_checked_piece_by_piece_and_answered_in_its_order(
    secured: SecuredBroker, root: RawClient, alice: RawClient, name: str
) -> None:
    """Its topics are cut in two: what is refused of one must not be joined with what is served of another."""
    allowed = root.create_topic(name)
    secured.allow(Op.DESCRIBE, Of.TOPIC, allowed)
    secured.allow(Op.DELETE, Of.TOPIC, allowed)
    names = [f"hidden-{number}" if number % 3 else allowed for number in range(30)]
    counts = [7 * number + 1 for number in range(30)]
    offsets = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(each, [ListOffsetsPartition(index, timestamp=-1) for index in range(count)])
            for each, count in zip(names, counts, strict=True)
        ]
    )
    answer = alice.call(ApiKey.LIST_OFFSETS, 6, offsets)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == list(zip(names, counts, strict=True))
    for topic in answer.topics:
        refused = {partition.error_code == REFUSED for partition in topic.partitions}
        assert refused == {topic.name != allowed}
        assert [partition.partition_index for partition in topic.partitions] == list(range(len(topic.partitions)))
    records = DeleteRecordsRequest(
        [
            DeleteRecordsTopic(each, [DeleteRecordsPartition(index, 0) for index in range(1, count + 1)])
            for each, count in zip(names, counts, strict=True)
        ],
        1000,
    )
    told = alice.call(ApiKey.DELETE_RECORDS, 2, records).topics
    assert [(topic.name, len(topic.partitions)) for topic in told] == list(zip(names, counts, strict=True))
    assert all(
        (partition.error_code == REFUSED) == (topic.name != allowed) for topic in told for partition in topic.partitions
    )


def test_thousands_of_names_are_checked_in_slices(secured: SecuredBroker, alice: RawClient, name: str) -> None:
    """Of a request that is one decision, and of one that is refused as a whole for its size."""
    names = [f"{name}-{number}" for number in range(9000)]
    secured.allow(Op.READ, Of.GROUP, name)
    find_coordinator(alice, name, GROUP)
    beat = ConsumerGroupHeartbeatRequest(name, "m", 0, None, None, 60_000, names, topic_partitions=[])

    def refusal() -> int:
        code: int = alice.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat).error_code
        return code

    assert refusal() == REFUSED
    secured.allow(Op.DESCRIBE, Of.TOPIC, name, pattern_type=AclPatternType.PREFIXED)
    assert refusal() == 0
    secured.deny(Op.DESCRIBE, Of.TOPIC, names[-1])
    assert refusal() == REFUSED
    secured.allow(Op.CREATE, Of.TOPIC, names[0])
    many = CreateTopicsRequest([CreatableTopic(each, 2, 1) for each in names])
    answer = alice.call(ApiKey.CREATE_TOPICS, 7, many).topics
    assert [topic.name for topic in answer] == names
    assert {topic.error_code for topic in answer[1:]} == {REFUSED}
    assert answer[0].error_code == 0
