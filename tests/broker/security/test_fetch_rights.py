"""What Fetch and Produce ask for, in the ways that are theirs: sessions, replicas, requests parsed in place, acks=0."""

from __future__ import annotations

from typing import Any

import pytest

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.codes import AclOperation as Op
from semel.wire.codes import AclResourceType as Of
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.raw_client import RawClient, batch, fetch_request, produce_request, values
from tests.broker.secured import BOB, SecuredBroker

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def full_fetch(secured: SecuredBroker, *topics: str, version: int) -> FetchRequest:
    """One that begins a session."""
    partitions = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)]
    ids = secured.node.image.topics
    asked = [FetchTopic("" if version >= 13 else topic, ids[topic].id, partitions) for topic in topics]
    return FetchRequest(max_bytes=10_000, session_epoch=0, topics=asked)


def codes(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.responses for partition in topic.partitions]


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_rights_are_looked_at_with_every_fetch_of_a_session(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, version: int
) -> None:
    """Also for partitions that only the session remembers."""
    other = root.create_topic(f"{topic}-other")
    for each in (topic, other):
        root.produce(each, batch(b"first"))
        secured.allow(Op.READ, Of.TOPIC, each)
    begun = alice.call(ApiKey.FETCH, version, full_fetch(secured, topic, other, version=version))
    assert (codes(begun), begun.session_id > 0) == ([0, 0], True)
    secured.deny(Op.READ, Of.TOPIC, other)
    root.produce(other, batch(b"second"))
    again = FetchRequest(max_bytes=10_000, session_id=begun.session_id, session_epoch=1)
    answer = alice.call(ApiKey.FETCH, version, again)
    told = [
        (partition.error_code, bytes(partition.records or b""))
        for each in answer.responses
        for partition in each.partitions
        if partition.error_code
    ]
    assert told == [(REFUSED, b"")]
    assert not any(b"second" in bytes(p.records or b"") for each in answer.responses for p in each.partitions)


def test_a_session_of_another_client_shows_nothing_that_its_user_may_not_read(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str
) -> None:
    root.produce(topic, batch(b"secret"))
    secured.allow(Op.READ, Of.TOPIC, topic)
    begun = alice.call(ApiKey.FETCH, 12, full_fetch(secured, topic, version=12))
    assert codes(begun) == [0]
    stolen = FetchRequest(max_bytes=10_000, session_id=begun.session_id, session_epoch=1)
    answer = secured.client(BOB).call(ApiKey.FETCH, 12, stolen)
    assert codes(answer) == [REFUSED]


def test_a_fetch_that_waits_is_checked_again_when_it_is_answered(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str
) -> None:
    secured.allow(Op.READ, Of.TOPIC, topic)
    sent = alice.send(ApiKey.FETCH, 11, fetch_request(topic, 0, max_wait_ms=60_000))
    partition = secured.node.partitions.get(topic, 0)
    assert partition is not None
    while not partition._watching:
        root.fetch(topic, 0)  # Until the broker has read the other one.
    secured.deny(Op.READ, Of.TOPIC, topic)
    root.produce(topic, batch(b"secret"))
    answer = alice.receive(ApiKey.FETCH, 11, sent)
    assert codes(answer) == [REFUSED]


@pytest.mark.parametrize("version", range(4, 19))
def test_cve_2018_1288_a_client_that_claims_to_be_a_replica_needs_cluster_action(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, version: int
) -> None:
    """To read the topic does not make it a follower, and to be one gives it no record and moves no high watermark."""
    root.produce(topic, batch(b"first"))
    secured.allow(Op.READ, Of.TOPIC, topic)
    claim = full_fetch(secured, topic, version=version)
    claim.replica_id = 2
    claim.replica_state = ReplicaState(2, -1)
    assert codes(alice.call(ApiKey.FETCH, version, claim)) == [REFUSED]
    secured.allow(Op.CLUSTER_ACTION, Of.CLUSTER)
    assert codes(alice.call(ApiKey.FETCH, version, claim)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# Produce


@pytest.mark.parametrize("version", range(3, 14))
def test_a_request_that_is_parsed_in_place_needs_write_on_its_topic(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, version: int
) -> None:
    def produce() -> Any:
        request = produce_request(topic, batch(b"a"))
        request.topic_data[0].topic_id = secured.node.image.topics[topic].id
        if version >= 13:
            request.topic_data[0].name = ""
        (answered,) = alice.call(ApiKey.PRODUCE, version, request).responses
        (partition,) = answered.partition_responses
        return partition.error_code

    assert produce() == REFUSED
    secured.allow(Op.WRITE, Of.TOPIC, topic)
    assert produce() == 0
    secured.deny(Op.WRITE, Of.TOPIC, topic)
    assert produce() == REFUSED
    assert len(values(root.fetch(topic, 0))) == 1


def test_without_acks_the_connection_of_a_refused_client_is_closed_and_the_rest_is_written(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str
) -> None:
    hidden = root.create_topic(f"{topic}-hidden")
    secured.allow(Op.WRITE, Of.TOPIC, topic)
    data = [TopicProduceData(name, partition_data=[PartitionProduceData(0, batch(b"a"))]) for name in (topic, hidden)]
    alice.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=0, timeout_ms=1000, topic_data=data))
    assert alice.is_closed_by_broker()
    assert [len(values(root.fetch(name, 0))) for name in (topic, hidden)] == [1, 0]


def test_a_topic_that_is_not_there_is_told_to_be_unknown_only_to_a_client_that_may_write_to_it(
    secured: SecuredBroker, alice: RawClient, name: str
) -> None:
    assert alice.produce(name, batch(b"a")).error_code == REFUSED
    assert alice.fetch(name, 0).error_code == REFUSED
    for operation in (Op.WRITE, Op.READ):
        secured.allow(operation, Of.TOPIC, name)
    assert alice.produce(name, batch(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alice.fetch(name, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
