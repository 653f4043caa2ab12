"""The gate of a partition hears AddPartitionsToTxn of an older client at once, and is closed by every marker."""

from __future__ import annotations

import asyncio

import pytest

from semel.broker.transaction_gate import ProducerIdentity
from semel.testing.simulation import Simulation, run
from semel.types import TopicPartition
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import ServedBroker, create_topic
from tests.simulation.test_commit_crashes import PARTITIONS, TIMEOUT_MS, TOPIC, Producer
from tests.simulation.transactional_producer import Lost


async def begun(simulation: Simulation) -> tuple[ServedBroker, Producer]:
    """A transaction of V1 that has partition 0, and has written nothing."""
    served = ServedBroker(simulation)
    served.start()
    await create_topic(served.client(), TOPIC, PARTITIONS)
    producer = Producer(served.client(), simulation, is_v2=False, timeout_ms=TIMEOUT_MS)
    await producer._find()
    await producer._init()
    await producer._add_partitions([0])
    return served, producer


def open_gates(served: ServedBroker, producer: Producer) -> list[int]:
    identity = ProducerIdentity(producer._producer_id, producer._epoch)
    partitions = [served.broker.node.partitions.get(TOPIC, index) for index in range(PARTITIONS)]
    return [
        index
        for index, partition in enumerate(partitions)
        if partition is not None and partition.gate.is_open(producer.name, identity)
    ]


def test_what_was_added_may_be_written_to_until_the_transaction_ends_scenario_42() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await begun(simulation)
        assert open_gates(served, producer) == [0]
        await producer._produce(0, [b"value"])
        assert await producer.end(True)
        assert open_gates(served, producer) == []
        assert await read_committed(served.client(), TopicPartition(TOPIC, 0)) == [b"value"]

    run(scenario, seed=1)


def test_what_was_added_and_never_written_to_is_closed_by_the_timeout() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await begun(simulation)
        identity = ProducerIdentity(producer._producer_id, producer._epoch)
        await asyncio.sleep(TIMEOUT_MS / 1000 + 2)
        partition = served.broker.node.partitions.get(TOPIC, 0)
        assert partition is not None
        assert not partition.gate.is_open(producer.name, identity)

    run(scenario, seed=1)


def test_a_refusal_opens_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await begun(simulation)
        fenced = Producer(served.client(), simulation, is_v2=False, timeout_ms=TIMEOUT_MS)
        fenced._producer_id, fenced._epoch = producer._producer_id, producer._epoch
        await producer._init()
        with pytest.raises(Lost, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
            await fenced._add_partitions([1])
        assert open_gates(served, fenced) == open_gates(served, producer) == []

    run(scenario, seed=1)
