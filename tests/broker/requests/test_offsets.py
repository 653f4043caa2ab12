"""Committed offsets over the wire: OffsetCommit, OffsetFetch and TxnOffsetCommit, in every version."""

from __future__ import annotations

from uuid import UUID

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.offset_client import GROUP_ERROR, commit, fetch, fetch_offset, topic_id
from tests.broker.raw_client import RawClient
from tests.broker.transactional_client import GROUP, Transactional, find_coordinator


def versions(key: ApiKey, *, since: int = 0) -> list[int]:
    return [version for version in range(APIS[key].min_version, APIS[key].max_version + 1) if version >= since]


@pytest.fixture
def group(client: RawClient, name: str) -> str:
    group = f"group of {name}"
    assert find_coordinator(client, group, GROUP).error_code == 0
    return group


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_every_version_commits_an_offset(client: RawClient, topic: str, group: str, version: int) -> None:
    assert commit(client, group, topic, 17, version=version, leader_epoch=3) == 0
    epoch = 3 if version >= 6 else None
    assert fetch(client, group, [(topic, [0])]) == {(topic, 0): (0, 17, epoch, "note")}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_every_version_fetches_what_is_committed_and_none_where_nothing_is(
    client: RawClient, topic: str, group: str, version: int
) -> None:
    commit(client, group, topic, 17, leader_epoch=3)
    key = str(topic_id(client, topic)) if version >= 10 else topic
    found = fetch(client, group, [(topic, [0, 5])], version=version)
    assert found == {(key, 0): (0, 17, 3 if version >= 5 else None, "note"), (key, 5): (0, None, None, "")}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, since=2))
def test_null_topics_ask_for_everything_of_the_group(client: RawClient, name: str, group: str, version: int) -> None:
    topics = [client.create_topic(f"{name}-{letter}", 2) for letter in "ab"]
    for number, topic in enumerate(topics):
        commit(client, group, topic, number, partition=number)
    found = fetch(client, group, None, version=version)
    keys = [str(topic_id(client, topic)) if version >= 10 else topic for topic in topics]
    assert {key: offset for key, (_, offset, _, _) in found.items()} == {(keys[0], 0): 0, (keys[1], 1): 1}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, since=8))
def test_many_groups_are_asked_for_at_once(client: RawClient, topic: str, version: int) -> None:
    groups = [f"{topic} group {number}" for number in range(5)]
    find_coordinator(client, groups[0], GROUP)
    for number, group in enumerate(groups):
        commit(client, group, topic, number)
    identity = topic_id(client, topic)
    asked = [
        OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, identity, [0])]) for group in groups
    ]
    answer = client.call(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=asked))
    assert [(g.group_id, g.topics[0].partitions[0].committed_offset) for g in answer.groups] == [
        (group, number) for number, group in enumerate(groups)
    ]


def test_topic_ids_that_nobody_has_are_said_so(client: RawClient, group: str) -> None:
    nobody = UUID(int=77)
    topics = [OffsetCommitRequestTopic("", nobody, [OffsetCommitRequestPartition(0, 1, None, "")])]
    answer = client.call(ApiKey.OFFSET_COMMIT, 10, OffsetCommitRequest(group, topics=topics))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    asked = [OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("", nobody, [0])])]
    answer = client.call(ApiKey.OFFSET_FETCH, 10, OffsetFetchRequest(groups=asked))
    assert answer.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_offset_of_a_partition_that_does_not_exist_is_refused(client: RawClient, topic: str, group: str) -> None:
    assert commit(client, group, topic, 1, partition=3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, group, "no-such-topic", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_that_is_too_long_is_refused(client: RawClient, topic: str, group: str) -> None:
    assert commit(client, group, topic, 1, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(client, group, topic, 1, metadata="x" * 4096) == 0


def test_a_generation_or_a_member_that_the_group_does_not_have_is_refused(
    client: RawClient, topic: str, group: str
) -> None:
    """KIP-447, for plain commits and for those of a transaction."""
    assert (
        commit(client, group, topic, 1, generation_id_or_member_epoch=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION
    )
    producer = Transactional(client, f"id of {group}", is_v2=True)
    producer.find()
    producer.init()
    assert producer.commit_offset(group, topic, 1, generation_id=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION
    commit(client, group, topic, 1)
    refused = commit(client, group, topic, 1, generation_id_or_member_epoch=3, member_id="m")
    assert refused in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_a_broker_that_does_not_coordinate_the_group_says_so(version: int) -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        topic = client.create_topic("t")
        found = fetch(client, "g", [(topic, [0])], version=version)
        if version < 2:
            assert found == {(topic, 0): (ErrorCode.NOT_COORDINATOR, None, None, "")}
        else:
            assert found == {GROUP_ERROR: (ErrorCode.NOT_COORDINATOR, None, None, "")}
        assert commit(client, "g", topic, 1) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(2, 8))
def test_a_refusal_is_said_of_every_partition_too(version: int) -> None:
    """aiokafka looks nowhere else: to it, no partition would mean that nothing is committed."""
    with Broker() as broker, RawClient(broker.port) as client:
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 1])])
        answer = client.call(ApiKey.OFFSET_FETCH, version, request)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    told = [(one.partition_index, one.error_code, one.committed_offset) for one in answer.topics[0].partitions]
    assert told == [(0, ErrorCode.NOT_COORDINATOR, None), (1, ErrorCode.NOT_COORDINATOR, None)]


# In transactions


@pytest.fixture
def producer(client: RawClient, name: str) -> Transactional:
    producer = Transactional(client, f"id of {name}")
    producer.find()
    producer.init()
    return producer


@pytest.mark.parametrize("version", versions(ApiKey.TXN_OFFSET_COMMIT))
def test_scenario_51_every_version_commits_offsets_that_count_when_the_transaction_does(
    client: RawClient, topic: str, group: str, producer: Transactional, version: int
) -> None:
    commit(client, group, topic, 1)
    if version < 5:
        assert producer.add_offsets(group, version=min(version, 4)) == 0
    assert producer.commit_offset(group, topic, 2, version=version) == 0
    assert fetch_offset(client, group, topic) == (0, 1), "nobody sees it before the end"
    assert producer.end(True, version=5 if version >= 5 else 4).error_code == 0
    assert fetch_offset(client, group, topic) == (0, 2)


@pytest.mark.parametrize("version", versions(ApiKey.ADD_OFFSETS_TO_TXN))
def test_every_version_adds_offsets_to_the_transaction(client: RawClient, topic: str, group: str, version: int) -> None:
    producer = Transactional(client, f"id of {group}", is_v2=False)
    producer.find()
    producer.init()
    assert producer.add_offsets(group, version) == 0
    assert producer.commit_offset(group, topic, 2) == 0
    stale = Transactional(client, producer.transactional_id)
    stale.producer_id, stale.epoch = producer.producer_id, producer.epoch
    producer.init()
    refused = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert stale.add_offsets(group, version) == refused


def test_offsets_of_a_transaction_that_is_aborted_are_dropped(
    client: RawClient, topic: str, group: str, producer: Transactional
) -> None:
    commit(client, group, topic, 1)
    producer.commit_offset(group, topic, 2)
    producer.end(False)
    assert fetch_offset(client, group, topic, stable=True) == (0, 1)


def test_scenario_52_an_offset_that_a_transaction_may_change_is_not_told_to_whom_wants_it_stable(
    client: RawClient, topic: str, group: str, producer: Transactional
) -> None:
    commit(client, group, topic, 1)
    producer.commit_offset(group, topic, 2)
    assert fetch_offset(client, group, topic, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, None)
    assert fetch_offset(client, group, topic) == (0, 1)
    producer.end(True)
    assert fetch_offset(client, group, topic, stable=True) == (0, 2)


def test_scenario_55_of_a_plain_commit_and_one_in_a_transaction_the_later_in_the_log_counts_also_after_a_restart() -> (
    None
):
    with Broker() as broker:
        with RawClient(broker.port) as client:
            topic = client.create_topic("t", 2)
            producer = Transactional(client, "x")
            producer.find()
            producer.init()
            producer.commit_offset("plain beats", topic, 1)
            commit(client, "plain beats", topic, 2)
            commit(client, "transaction beats", topic, 3)
            producer.commit_offset("transaction beats", topic, 4)
            producer.end(True)
            live = [fetch_offset(client, group, topic) for group in ("plain beats", "transaction beats")]
        assert live == [(0, 2), (0, 4)]
        broker.restart(kill=True)
        with RawClient(broker.port) as client:
            assert [fetch_offset(client, group, topic) for group in ("plain beats", "transaction beats")] == live


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_scenario_42_offsets_for_which_nothing_was_added_are_refused(
    client: RawClient, topic: str, group: str, producer: Transactional, version: int, code: ErrorCode
) -> None:
    assert producer.commit_offset(group, topic, 2, version=version) == code
    assert fetch_offset(client, group, topic, stable=True) == (0, None)


def test_a_fenced_producer_commits_no_offsets(
    client: RawClient, topic: str, group: str, producer: Transactional
) -> None:
    zombie = Transactional(client, producer.transactional_id)
    zombie.producer_id, zombie.epoch = producer.producer_id, producer.epoch
    producer.init()
    for version in (3, 4, 5):
        assert zombie.commit_offset(group, topic, 2, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_offsets_without_a_group_are_refused(client: RawClient, topic: str, producer: Transactional) -> None:
    assert producer.commit_offset("", topic, 2) == ErrorCode.INVALID_GROUP_ID


def test_pending_offsets_survive_a_restart_and_count_when_the_transaction_is_committed_after_it() -> None:
    """Scenario 51, across a reload."""
    with Broker() as broker:
        with RawClient(broker.port) as client:
            topic = client.create_topic("t")
            producer = Transactional(client, "x")
            producer.find()
            producer.init()
            producer.commit_offset("g", topic, 5)
        broker.restart(kill=True)
        with RawClient(broker.port) as client:
            assert fetch_offset(client, "g", topic, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, None)
            producer.client = client
            assert producer.commit_offset("g", topic, 6) == 0
            assert producer.end(True).error_code == 0
            assert fetch_offset(client, "g", topic, stable=True) == (0, 6)


def test_offsets_go_when_their_topic_goes(client: RawClient, topic: str, group: str) -> None:
    commit(client, group, topic, 1)
    request = DeleteTopicsRequest(topic_names=[topic])
    assert client.call(ApiKey.DELETE_TOPICS, 4, request).responses[0].error_code == 0
    assert fetch(client, group, None) == {}
