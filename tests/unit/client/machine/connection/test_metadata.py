"""Who leads what: asked when needed, asked again when wrong or old, and never believed against newer knowledge."""

from __future__ import annotations

from semel.client.machine.connection.cluster_view import ClusterView, PartitionView
from semel.errors import ErrorCode
from semel.types import Address, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import Producing, producing

ORDERS_0 = TopicPartition("orders", 0)


def asked(producer: Producing) -> list[tuple[float, list[str]]]:
    """When Metadata was asked for, and about which topics."""
    return [
        (request.at_ms, [topic.name for topic in request.message.topics])
        for request in producer.bench.requests(ApiKey.METADATA)
    ]


def test_a_topic_is_asked_for_when_its_first_record_comes() -> None:
    producer = producing()
    producer.advance(1_000)
    producer.send(b"a")
    producer.send(b"b")
    assert asked(producer) == [(1_000, []), (1_000, ["orders"])]


def test_metadata_is_asked_for_again_after_metadata_max_age_ms() -> None:
    producer = producing(metadata_max_age_ms=10_000)
    producer.send(b"a")
    producer.advance(35_000)
    assert [moment for moment, _ in asked(producer)] == [0, 10_000, 20_000, 30_000]


def test_a_topic_that_nobody_writes_to_is_forgotten_after_metadata_max_idle_ms() -> None:
    producer = producing(metadata_max_age_ms=10_000, metadata_max_idle_ms=15_000)
    producer.send(b"a")
    producer.advance(35_000)
    assert asked(producer)[1:] == [(10_000, ["orders"]), (20_000, []), (30_000, [])]
    producer.send(b"b")
    assert producer.offsets == {b"a": 0, b"b": 1}


def test_a_leader_that_moved_is_looked_for_and_found() -> None:
    producer = producing(ModelCluster(nodes=2, topics={"orders": 1}))
    producer.send(b"a")
    producer.cluster.move_leader("orders", 0, 2)
    producer.send(b"b")
    producer.advance(1_000)
    assert producer.offsets == {b"a": 0, b"b": 1}
    assert [request.node_id for request in producer.bench.requests(ApiKey.PRODUCE)] == [1, 1, 2]


def test_a_leader_whose_connection_was_lost_while_nothing_was_asked_is_looked_for() -> None:
    """It died between two requests, and no answer will ever say that another broker leads."""
    producer = producing(ModelCluster(nodes=2, topics={"orders": 1}))
    producer.send(b"a")
    producer.cluster.move_leader("orders", 0, 2)
    producer.bench.refusing.add(1)
    for connection in tuple(producer.bench.connections):
        producer.bench.drop_connection(connection)
    producer.advance(1_000)
    producer.send(b"b")
    producer.advance(1_000)
    assert producer.offsets == {b"a": 0, b"b": 1}
    assert [request.node_id for request in producer.bench.requests(ApiKey.PRODUCE)] == [1, 2]


def test_a_broker_that_names_the_new_leader_is_believed_without_asking() -> None:
    """KIP-951."""
    producer = producing(ModelCluster(nodes=2, topics={"orders": 1}))
    producer.send(b"a")
    producer.bench.held = lambda request: request.api_key in (ApiKey.PRODUCE, ApiKey.METADATA)
    producer.cluster.move_leader("orders", 0, 2)
    producer.send(b"b")
    moved = PartitionProduceResponse(
        0, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(2, leader_epoch=1)
    )
    request = producer.bench.waiting(ApiKey.PRODUCE)[0]
    topic = TopicProduceResponse("orders", producer.cluster.topic_id("orders"), [moved])
    response = ProduceResponse(responses=[topic], node_endpoints=[NodeEndpoint(2, "node-2", 9092)])
    producer.bench.answer(request, response)
    producer.advance(200)
    assert [request.node_id for request in producer.bench.waiting(ApiKey.PRODUCE)] == [2]


def test_a_leader_that_the_broker_asked_does_not_know_yet_is_asked_for_again() -> None:
    """The answer of a broker that lags behind: an older leader epoch, and the leader is not among its brokers."""
    producer = producing(ModelCluster(nodes=2, topics={"orders": 1}), metadata_max_age_ms=60_000)
    producer.cluster.move_leader("orders", 0, 2)
    producer.send(b"a")
    both = producer.cluster.addresses
    producer.cluster.addresses = {1: both[1]}
    producer.cluster.leader_epochs[ORDERS_0] -= 1
    for connection in tuple(producer.bench.connections):
        producer.bench.drop_connection(connection)
    producer.advance(61_000)
    producer.cluster.addresses = both
    producer.cluster.leader_epochs[ORDERS_0] += 1
    producer.advance(2_000)
    producer.send(b"b")
    producer.advance(1_000)
    assert producer.offsets == {b"a": 0, b"b": 1}


def test_what_failed_is_asked_again_with_pauses() -> None:
    producer = producing(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    producer.cluster.creates_topics = False
    producer.send(b"a", topic="nowhere")
    producer.advance(10_000)
    assert 8 <= len(asked(producer)) <= 20


def test_when_nobody_has_answered_for_long_the_bootstrap_servers_are_asked_again() -> None:
    producer = producing(metadata_recovery_rebootstrap_trigger_ms=20_000, metadata_max_age_ms=1_000)
    producer.send(b"a")
    # The whole cluster moves; only the address that was configured still leads to it.
    producer.cluster.addresses = {7: Address("elsewhere", 9092)}
    producer.cluster.leaders[ORDERS_0] = 7
    for connection in tuple(producer.bench.connections):
        producer.bench.drop_connection(connection)
    producer.advance(15_000)
    assert all(address.host == "node-1" for _, address in producer.bench.connects)
    producer.cluster.addresses = {7: Address("node-1", 9092)}
    producer.bench.cluster.leaders[ORDERS_0] = 7
    producer.advance(20_000)
    producer.send(b"b")
    assert producer.offsets == {b"a": 0, b"b": 1}


def answer(leader: int | None, epoch: int, partitions: int = 1) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node, f"node-{node}", 9092) for node in (1, 2)],
        topics=[
            MetadataResponseTopic(
                name="orders",
                partitions=[
                    MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
                    for index in range(partitions)
                ],
            )
        ],
    )


def test_an_answer_from_a_broker_that_lags_behind_changes_nothing() -> None:
    view = ClusterView().updated(answer(leader=2, epoch=5)).updated(answer(leader=1, epoch=4))
    assert view.partition(ORDERS_0) == PartitionView(2, 5)


def test_a_newer_answer_replaces_the_leader_and_adds_partitions() -> None:
    view = ClusterView().updated(answer(leader=2, epoch=5)).updated(answer(leader=1, epoch=6, partitions=3))
    assert view.partition(ORDERS_0) == PartitionView(1, 6)
    assert len(view.topics["orders"].partitions) == 3


def test_a_partition_without_a_leader_is_known_and_not_available() -> None:
    view = ClusterView().updated(answer(leader=None, epoch=5, partitions=2))
    assert view.leader(ORDERS_0) is None
    assert view.topics["orders"].available == (0, 1), "with no leader anywhere, all count"
