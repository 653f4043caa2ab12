"""What a coordinator tells without writing it is confirmed by the other in-sync replicas: what is old is not told."""

from __future__ import annotations

import asyncio

import pytest

from semel.errors import ErrorCode
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.clock import START_MS
from semel.types import CONSUMER_OFFSETS_TOPIC
from semel.wire.apis import ApiKey
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import Record, build_batch
from tests.simulation.served_broker import create_topic
from tests.simulation.served_cluster import CLIENTS, PORT, SESSION_TIMEOUT_S, ServedCluster
from tests.simulation.single_replica_faults import GROUP, commit, committed
from tests.simulation.test_replicas import PARTITIONS, TOPIC, leader, started
from tests.simulation.wire_client import WireClient, find_group_coordinator

PRODUCER_ID = 4_000


def patient(simulation: Simulation, node_id: int) -> WireClient:
    return WireClient(simulation.host(CLIENTS).network, f"broker-{node_id}", PORT, timeout_s=60)


async def coordinator_of(simulation: Simulation, cluster: ServedCluster) -> int:
    """As soon as there is one, it is told offset 10."""
    await find_group_coordinator(patient(simulation, 1), GROUP)
    while True:
        for node_id in cluster.brokers:
            if await commit(patient(simulation, node_id), 10) == ErrorCode.NONE:
                return node_id
        await asyncio.sleep(0.5)


async def commit_elsewhere(simulation: Simulation, cluster: ServedCluster, offset: int, besides: int) -> None:
    while True:
        for node_id in cluster.brokers:
            if node_id != besides and await commit(patient(simulation, node_id), offset) == ErrorCode.NONE:
                return
        await asyncio.sleep(0.2)


def one_record(index: int) -> ProduceRequest:
    data = [PartitionProduceData(index, build_batch([Record(0, START_MS, None, b"")]))]
    return ProduceRequest(acks=1, timeout_ms=500, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])


async def a_fetch_that_was_under_way_confirms_nothing(simulation: Simulation) -> None:
    """Two Fetches of a follower were on their way to a leader before it was paused. The first one's answer leaves after
    the question; the second one was sent before it.
    """
    cluster = await started(simulation, replica_fetch_wait_max_ms="30000", replica_lag_time_max_ms="600000")
    old = await coordinator_of(simulation, cluster)
    await asyncio.sleep(60)
    # The question of one of them comes before the other brokers let go of their connections.
    asking = [patient(simulation, old) for _ in range(8)]
    assert {await committed(each) for each in asking} == {10}
    await asyncio.sleep(0.1)
    cluster.brokers[old].host.pause()
    # What the followers are to copy from now on, too, they ask for while their first Fetch waits.
    other = next(node_id for node_id in cluster.brokers if node_id != old)
    made = asyncio.ensure_future(create_topic(cluster.client(other), "another", 6, replicas=3))
    await asyncio.sleep(SESSION_TIMEOUT_S + 4)
    await made
    for index in range(PARTITIONS):
        if leader(cluster, index).node_id != old:
            # Something to copy, so that the other brokers look at what comes after a Fetch that waits.
            await patient(simulation, leader(cluster, index).node_id).send(ApiKey.PRODUCE, 9, one_record(index))
    await commit_elsewhere(simulation, cluster, 20, besides=old)
    told = asyncio.gather(*map(committed, asking))
    await asyncio.sleep(1)
    cluster.brokers[old].host.resume()
    await asyncio.sleep(5)
    assert told.done()
    assert {None, 20}.issuperset(told.result()), (
        "an offset was told that is older than one acknowledged before the question"
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_fetch_that_was_under_way_confirms_nothing(seed: int) -> None:
    """Scenario 36: never a stale answer."""
    run(a_fetch_that_was_under_way_confirms_nothing, seed=seed)


def numbered(index: int, sequence: int) -> ProduceRequest:
    """One record of an idempotent producer."""
    batch = build_batch(
        [Record(0, START_MS, None, b"")], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence
    )
    data = [PartitionProduceData(index, batch)]
    return ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])


async def produce(client: WireClient, index: int, sequence: int) -> int:
    answer = await client.call(ApiKey.PRODUCE, 9, numbered(index, sequence))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


async def a_replaced_leader_says_nothing_of_a_producer(simulation: Simulation) -> None:
    """It lacks the batches that its successor has, and would call the next one out of order."""
    cluster = await started(simulation, replica_lag_time_max_ms="600000")
    old = leader(cluster, 0).node_id
    assert await produce(patient(simulation, old), 0, 0) == ErrorCode.NONE
    assert await produce(patient(simulation, old), 0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "it leads"
    asking = patient(simulation, old)
    await produce(asking, 0, 0)
    cluster.brokers[old].host.pause()
    await asyncio.sleep(SESSION_TIMEOUT_S + 4)
    other = next(node_id for node_id in cluster.brokers if node_id != old)
    while await produce(patient(simulation, other), 0, 1) != ErrorCode.NONE:
        other = next(node_id for node_id in cluster.brokers if node_id not in (old, other))
        await asyncio.sleep(0.2)
    told = asyncio.ensure_future(produce(asking, 0, 2))
    await asyncio.sleep(1)
    cluster.brokers[old].host.resume()
    assert await told == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await produce(patient(simulation, other), 0, 2) == ErrorCode.NONE


@pytest.mark.parametrize("seed", range(3))
def test_a_replaced_leader_says_nothing_of_a_producer(seed: int) -> None:
    """Scenario 36: never a stale answer."""
    run(a_replaced_leader_says_nothing_of_a_producer, seed=seed)


async def a_coordinator_is_cut_off_from_one_follower(simulation: Simulation) -> None:
    """Both are members, the follower has everything, and nothing is written that it could lack."""
    cluster = await started(simulation)
    coordinator = await coordinator_of(simulation, cluster)
    await asyncio.sleep(5)
    follower = next(node_id for node_id in cluster.brokers if node_id != coordinator)
    simulation.network.partition(f"broker-{coordinator}", f"broker-{follower}")
    async with asyncio.timeout(25):
        assert await committed(patient(simulation, coordinator)) == 10
    async with asyncio.timeout(1):
        assert await committed(patient(simulation, coordinator)) == 10
    simulation.network.heal()
    await asyncio.sleep(60)
    for partition in cluster.image.topics[CONSUMER_OFFSETS_TOPIC].partitions:
        assert sorted(partition.isr) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_that_is_cut_off_from_one_follower_tells_offsets(seed: int) -> None:
    run(a_coordinator_is_cut_off_from_one_follower, seed=seed)
