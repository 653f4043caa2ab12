"""The real broker with transactional producers of both generations, under kills, power cuts and a meddling network.

What must hold once the faults stop: no transaction stays open; every value of a committed transaction is visible to a
read_committed reader, once, on all its partitions; no value of an aborted one is visible on any; and the offset of a
group is that of the last committed transaction that carried one.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from semel.testing.simulation import Simulation, seeds, simulate
from semel.testing.virtual.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.simulation.committed_reader import read_committed
from tests.simulation.host_deaths import WAYS, kill_host
from tests.simulation.served_broker import BROKER, CLIENTS, ServedBroker, create_topic
from tests.simulation.transactional_producer import TransactionalProducer
from tests.simulation.wire_client import WireClient

TOPIC = "orders"
PARTITIONS = 3
PRODUCERS = 4
TRANSACTIONS = 12
TIMEOUT_MS = 4_000

V2_END_TXN = 5


def meddler(random: Random, *, probability: float) -> Any:
    """Loses, repeats and delays whole requests and answers.

    But it lets no EndTxn of the older generation come twice or late: that would end the next transaction, here as in
    Apache Kafka (KAFKA-17754).
    """

    def decide(frame: Frame) -> Verdict:
        if random.random() > probability:
            return DELIVER
        if not frame.to_server:
            return random.choice((DROP, REPEAT, RESET, Verdict(delay_ms=random.uniform(1, 3_000))))
        api_key, version = int.from_bytes(frame.payload[:2], "big"), int.from_bytes(frame.payload[2:4], "big")
        if api_key == ApiKey.END_TXN and version < V2_END_TXN:
            return RESET
        return random.choice((RESET, REPEAT, RESET, Verdict(delay_ms=random.uniform(1, 3_000))))

    return decide


async def inject_faults(simulation: Simulation, served: ServedBroker) -> None:
    """Everything that can happen to a broker and its coordinators, for a while; then peace."""
    random, host = simulation.random("torment"), served.host
    for _ in range(random.randint(3, 8)):
        await asyncio.sleep(random.uniform(0.01, 2.0))
        fault = random.randrange(7)
        if fault < WAYS:
            kill_host(host, fault, random, operations_max=80)
        elif fault == 4:
            simulation.network.partition(BROKER, CLIENTS)
            await asyncio.sleep(random.uniform(0.1, 5.0))
            simulation.network.heal()
        elif fault == 5:
            host.pause()
            await asyncio.sleep(random.uniform(0.1, 5.0))
            host.resume()
        else:
            served.move_coordinator(
                of_offsets=random.random() < 0.3, partition=random.randrange(2), away_ms=random.uniform(0, 1_000)
            )
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not host.alive:
            served.start()
    host.disk.repair()
    if not host.alive:
        served.start()


async def produce_under_faults(simulation: Simulation, served: ServedBroker) -> list[TransactionalProducer]:
    """Producers of both generations that finish what they began, whatever happens."""
    served.start()
    await create_topic(served.client(), TOPIC, PARTITIONS)
    simulation.network.interceptor = meddler(simulation.random("meddler"), probability=0.05)
    producers = [
        TransactionalProducer(
            f"p{n}",
            served.client(),
            simulation.random(f"producer {n}"),
            topic=TOPIC,
            partitions=PARTITIONS,
            is_v2=n % 2 == 0,
            timeout_ms=TIMEOUT_MS,
        )
        for n in range(PRODUCERS)
    ]
    running = [asyncio.ensure_future(producer.run(TRANSACTIONS)) for producer in producers]
    await inject_faults(simulation, served)
    simulation.network.interceptor = None
    await asyncio.gather(*running)
    return producers


async def until_nothing_is_open(client: WireClient) -> None:
    """Give what was left behind the time to time out; then nothing may be open."""
    await asyncio.sleep(TIMEOUT_MS / 1000 + 2.0)
    undecided = ListTransactionsRequest(["Ongoing", "PrepareCommit", "PrepareAbort"])
    listed = await client.call(ApiKey.LIST_TRANSACTIONS, 1, undecided)
    assert (listed.error_code, listed.transaction_states) == (0, [])


async def check_visible(client: WireClient, producers: list[TransactionalProducer]) -> int:
    committed, aborted = set(), set()
    for producer in producers:
        for written in producer.transactions:
            assert written.committed is not None, f"{producer.name}: the end of {written} is not known"
            (committed if written.committed else aborted).update(
                (partition, value) for partition, values in written.values.items() for value in values
            )
    seen = []
    for index in range(PARTITIONS):
        partition = TopicPartition(TOPIC, index)
        seen += [(partition, value) for value in await read_committed(client, partition)]
    assert len(seen) == len(set(seen)), "a value is visible twice"
    assert committed - set(seen) == set(), "values of committed transactions are missing"
    assert aborted & set(seen) == set(), "values of aborted transactions are visible"
    assert set(seen) == committed
    return len(seen)


async def check_offsets(client: WireClient, producers: list[TransactionalProducer]) -> None:
    for producer in producers:
        expected = [written.number for written in producer.transactions if written.committed and written.has_offset]
        request = OffsetFetchRequest(producer.group, [OffsetFetchRequestTopic(TOPIC, [0])], require_stable=True)
        answer = await client.call(ApiKey.OFFSET_FETCH, 7, request)
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.committed_offset) == (0, expected[-1] if expected else None)


async def transactions_under_faults(simulation: Simulation) -> None:
    served = ServedBroker(simulation, flush="commit")
    producers = await produce_under_faults(simulation, served)
    await until_nothing_is_open(served.client())
    count = await check_visible(served.client(), producers)
    await check_offsets(served.client(), producers)
    simulation.trace.record(f"{count} values")


async def unsynced_data_under_faults(simulation: Simulation) -> None:
    """With flush=os a power cut takes data, and markers with it: what is visible then is not promised, but nothing may
    stay undecided, and everything must go on."""
    served = ServedBroker(simulation, flush="os")
    await produce_under_faults(simulation, served)
    await until_nothing_is_open(served.client())
    for index in range(PARTITIONS):
        await read_committed(served.client(), TopicPartition(TOPIC, index))


@pytest.mark.parametrize("seed", seeds(20))
def test_transactions_are_atomic_and_none_stays_open(seed: int) -> None:
    """Scenarios 26, 27, 31 to 36, 42, 51 and 52, against the whole broker."""
    simulate(seed, transactions_under_faults)


@pytest.mark.parametrize("seed", seeds(10))
def test_what_a_power_cut_took_leaves_no_transaction_open(seed: int) -> None:
    """The last row of the table of crashes in docs/design/transactions.md."""
    simulate(seed, unsynced_data_under_faults)


def test_the_same_seed_is_the_same_run() -> None:
    digests = {simulate(3, transactions_under_faults).digest() for _ in range(2)}
    assert len(digests) == 1
