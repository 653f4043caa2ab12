"""The real client and the real broker in the simulation: kills, power cuts, partitions, lost and repeated frames.

What must hold: every record is acknowledged once the faults stop, is in the log once and in order, at the offset that
its sender was told; and the consumer, under the same faults, reads every record once, in order.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from random import Random

import pytest

from semel import Consumer, Producer, RecordMetadata
from semel.testing.simulation import Simulation, seeds, simulate
from tests.simulation.test_broker import BROKER, PORT, inject_faults, meddler, serve

TOPIC = "orders"
PARTITIONS = 3
PRODUCERS = 3
RECORDS = 50

SETTINGS = {"bootstrap_servers": f"{BROKER}:{PORT}", "request_timeout_ms": 3_000, "reconnect_backoff_max_ms": 500}


async def produce(simulation: Simulation, name: str, random: Random) -> dict[bytes, RecordMetadata]:
    clients = simulation.host("clients")
    async with Producer(
        **SETTINGS,
        batch_size=random.choice((1, 200, 2_000)),
        linger_ms=random.choice((0, 5, 50)),
        compression_type=random.choice(("none", "gzip")),
        network=clients.network,
        clock=clients.clock,
        random=random,
    ) as producer:
        futures = {}
        for number in range(RECORDS):
            value = f"{name}-{number}".encode()
            futures[value] = producer.send(TOPIC, value, partition=random.randrange(PARTITIONS))
            if random.random() < 0.3:
                await asyncio.sleep(random.uniform(0, 0.5))
        await producer.flush()
        return {value: await future for value, future in futures.items()}


async def consume(simulation: Simulation, count: int, random: Random) -> dict[int, list[tuple[int, bytes | None]]]:
    clients = simulation.host("clients")
    found: dict[int, list[tuple[int, bytes | None]]] = {partition: [] for partition in range(PARTITIONS)}
    async with Consumer(
        **SETTINGS,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=300,
        network=clients.network,
        clock=clients.clock,
        random=random,
    ) as consumer:
        consumer.assign([(TOPIC, partition) for partition in range(PARTITIONS)])
        while sum(map(len, found.values())) < count:
            for record in await consumer.poll(1_000):
                found[record.partition].append((record.offset, record.value))
    return found


async def client_under_faults(simulation: Simulation) -> None:
    broker = simulation.host(BROKER)
    settings = {"num.partitions": str(PARTITIONS)}

    def start() -> None:
        broker.start(serve(broker, simulation.random(f"broker {simulation.loop.time()}"), settings))

    start()
    simulation.network.interceptor = meddler(simulation.random("meddler"), probability=0.04)
    producing = [
        asyncio.ensure_future(produce(simulation, f"p{number}", simulation.random(f"producer {number}")))
        for number in range(PRODUCERS)
    ]
    consuming = asyncio.ensure_future(consume(simulation, PRODUCERS * RECORDS, simulation.random("consumer")))
    await inject_faults(simulation, broker, start)
    simulation.network.interceptor = None
    written = await asyncio.gather(*producing)
    found = await consuming
    for partition, records in found.items():
        assert [offset for offset, _ in records] == list(range(len(records))), "read with gaps, or twice"
        for own in written:
            sent = [value for value, where in own.items() if where.partition == partition]
            assert [value for _, value in records if value in own] == sent, "not every record once and in order"
            assert all(records[own[value].offset or 0] == (own[value].offset, value) for value in sent)
        simulation.trace.record(f"{TOPIC}-{partition}: {len(records)} records")


@pytest.mark.parametrize("seed", seeds(25))
def test_the_client_loses_and_doubles_nothing(seed: int) -> None:
    """Scenarios 1, 6 and 7 with the whole client."""
    simulate(seed, client_under_faults)


def test_the_same_seed_is_the_same_run_under_another_hash_seed() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "semel.testing.simulation", f"{__file__}:client_under_faults", "--seed", "3"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.getcwd()}
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        digests.add(output.split("digest")[1])
    assert len(digests) == 1
