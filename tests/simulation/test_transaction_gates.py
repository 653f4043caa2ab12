"""The gate of a partition hears AddPartitionsToTxn of an older client at once, and is closed by every marker."""

from __future__ import annotations

import asyncio

import pytest

from semel.testing.simulation import Simulation, run
from semel.types import ProducerIdentity, TopicPartition
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import ServedBroker, create_topic
from tests.simulation.test_commit_crashes import PARTITIONS, TIMEOUT_MS, TOPIC, Producer
from tests.simulation.transactional_producer import Lost, Written


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


async def asked(simulation: Simulation, **settings: str) -> tuple[ServedBroker, Producer, asyncio.Task[None]]:
    """A V2 producer's first batch for partition 0, in the moment in which its coordinator is being asked."""
    served = ServedBroker(simulation, **settings)
    served.start()
    await create_topic(served.client(), TOPIC, PARTITIONS)
    producer = Producer(served.client(), simulation, is_v2=True, timeout_ms=TIMEOUT_MS)
    await producer._find()
    await producer._init()
    writing = asyncio.create_task(producer._produce(0, [b"value"]))
    partition = served.broker.node.partitions.get(TOPIC, 0)
    assert partition is not None
    while not partition.gate._asking:
        await asyncio.sleep(0.00001)
    return served, producer, writing


def test_a_partition_that_is_deleted_while_its_coordinator_is_asked_is_not_written_to() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, _, writing = await asked(simulation)
        served.broker.node.partitions.remove(TopicPartition(TOPIC, 0))
        with pytest.raises(Lost, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await writing

    run(scenario, seed=1)


def test_a_batch_whose_term_ends_while_its_coordinator_is_asked_is_sent_to_the_next_leader() -> None:
    """The topic is still there. UNKNOWN_TOPIC_OR_PARTITION would say that it was deleted, and fail this producer."""

    async def scenario(simulation: Simulation) -> None:
        served, producer, writing = await asked(simulation)
        partitions = served.broker.node.partitions
        partition = partitions.get(TOPIC, 0)
        assert partition is not None
        partitions.resign(partition.topic_partition)
        partitions.add(partition.log, leader_epoch=partition.leader_epoch + 1)
        await writing
        assert await producer.end(True)
        await asyncio.sleep(0.1)  # The marker is synced after the answer.
        assert await read_committed(served.client(), TopicPartition(TOPIC, 0)) == [b"value"]

    run(scenario, seed=1)


async def commits_offsets_while_the_term_changes(simulation: Simulation) -> None:
    served, producer, writing = await asked(simulation)
    await writing
    groups, partitions = served.broker.node.coordinators.groups, served.broker.node.partitions
    runtime = groups.runtime(groups.partition_for(producer.group))
    assert runtime is not None
    partition = runtime.partition
    committing = asyncio.create_task(producer._commit_offset(Written(number=1)))
    while not partition.gate._asking:
        await asyncio.sleep(0.00001)
    partitions.resign(partition.topic_partition)
    next_term = partitions.add(partition.log, leader_epoch=partition.leader_epoch + 1)
    await committing
    identity = ProducerIdentity(producer._producer_id, producer._epoch)
    assert next_term.gate.is_open(producer.name, identity), "the coordinator was not asked again"


def test_offsets_are_not_committed_on_the_word_for_a_term_of_leadership_that_is_over() -> None:
    """A marker that came in the next term would have found nothing to end, and these offsets would stay pending."""
    run(commits_offsets_while_the_term_changes, seed=1)


def test_a_late_marker_of_the_last_transaction_makes_a_producer_ask_again_and_fails_nothing() -> None:
    """A coordinator that got no answer sends a marker again, and its copy may come while the next one begins."""

    async def scenario(simulation: Simulation) -> None:
        served, producer, writing = await asked(simulation)
        partition = served.broker.node.partitions.get(TOPIC, 0)
        assert partition is not None
        partition.gate.close(producer._producer_id)
        await writing
        groups = served.broker.node.coordinators.groups
        runtime = groups.runtime(groups.partition_for(producer.group))
        assert runtime is not None
        committing = asyncio.create_task(producer._commit_offset(Written(number=1)))
        while not runtime.partition.gate._asking:
            await asyncio.sleep(0.00001)
        runtime.partition.gate.close(producer._producer_id)
        await committing
        assert await producer.end(True)
        await asyncio.sleep(0.1)  # The marker is synced after the answer.
        assert await read_committed(served.client(), TopicPartition(TOPIC, 0)) == [b"value"]

    run(scenario, seed=1)


@pytest.mark.parametrize("flush", ["os", "commit"])
def test_what_a_client_sent_before_it_left_is_a_part_of_its_transaction_scenario_42(flush: str) -> None:
    """Whoever comes back under the same id, and epoch, finds it there: the same batch again is a repetition."""

    async def scenario(simulation: Simulation) -> None:
        served, producer, writing = await asked(simulation, flush=flush)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        producer.client.close()
        await asyncio.sleep(1)
        assert open_gates(served, producer) == [0]
        await producer._produce(0, [b"value"])
        assert await producer.end(True)
        await asyncio.sleep(0.1)  # The marker is synced after the answer.
        assert await read_committed(served.client(), TopicPartition(TOPIC, 0)) == [b"value"]

    run(scenario, seed=1)
