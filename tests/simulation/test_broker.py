"""The real broker with idempotent producers, under kills, power cuts, lost and repeated frames, and partitions.

What must hold: every record that was acknowledged is in the log once, in order; and once the faults stop, everything
that was sent is acknowledged. The same seed is the same run, in every detail and under every hash seed.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.errors import ErrorCode
from semel.testing.simulation import Simulation, seeds, simulate
from semel.testing.virtual.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.testing.virtual.host import VirtualHost
from semel.types import Address, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import Record, build_batch, iterate_headers, iterate_records
from tests.simulation.host_deaths import WAYS, kill_host
from tests.simulation.wire_client import WireClient

BROKER = "broker"
PORT = 9092
TOPIC = "orders"
PARTITIONS = 3
RECORDS_PER_PRODUCER = 40
IN_FLIGHT_MAX = 5

RETRIABLE = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


async def serve(host: VirtualHost, random: Random, settings: dict[str, str]) -> None:
    broker = Broker(
        BrokerConfig.load("", {"log.dirs": "/data", "node.id": "1", **settings}),
        listen=Address(BROKER, PORT),
        disk=host.disk,
        network=host.network,
        clock=host.clock,
        random=random,
        make_worker=lambda _: host.worker(),
    )
    await broker.start()


class IdempotentProducer:
    """Sends its records in order to one partition, up to five requests at once, each until it is acknowledged."""

    def __init__(self, name: str, client: WireClient, partition: int) -> None:
        self.name = name
        self.partition = partition
        self.values = [f"{name}-{number}".encode() for number in range(RECORDS_PER_PRODUCER)]
        self.offsets: dict[int, int] = {}
        self._client = client
        self._producer_id = -1

    async def run(self) -> None:
        while self._producer_id < 0:
            answer = await self._persist(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000))
            if answer.error_code == ErrorCode.NONE:
                self._producer_id = answer.producer_id
        done = 0
        while done < len(self.values):
            done = await self._send_window(done)

    async def _send_window(self, first: int) -> int:
        """Send the next few, in order. Returns the first that must be sent (again): those before it are safe."""
        last = min(first + IN_FLIGHT_MAX, len(self.values))
        try:
            answers = [await self._client.send(ApiKey.PRODUCE, 9, self._request(n)) for n in range(first, last)]
            for number, answer in enumerate(answers, first):
                result = (await self._client.answer(answer)).responses[0].partition_responses[0]
                if result.error_code != ErrorCode.NONE:
                    assert result.error_code in RETRIABLE, f"{self.name} record {number}: {result}"
                    self._client.close()
                    await asyncio.sleep(0.1)
                    return number
                known = self.offsets.setdefault(number, result.base_offset)
                assert known == result.base_offset, (
                    f"{self.name} record {number} is at {known} and {result.base_offset}"
                )
        except (OSError, TimeoutError):
            self._client.close()
            await asyncio.sleep(0.1)
            return next(number for number in range(first, last + 1) if number not in self.offsets)
        return last

    def _request(self, number: int) -> ProduceRequest:
        records = build_batch(
            [Record(0, 1_700_000_000_000 + number, b"key", self.values[number])],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=number,
        )
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(self.partition, records)])
        return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data])

    async def _persist(self, key: ApiKey, version: int, message: object) -> Any:
        while True:
            try:
                return await self._client.call(key, version, message)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.1)


async def create_topic(client: WireClient) -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=5_000
    )
    while True:
        try:
            answer = (await client.call(ApiKey.CREATE_TOPICS, 5, request)).topics[0]
        except (OSError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return


async def read_all(client: WireClient, partition: int) -> list[tuple[int, bytes | None]]:
    offset, found = 0, []
    while True:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic=TOPIC, partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=10_000)]
                )
            ],
        )
        answer = (await client.call(ApiKey.FETCH, 11, request)).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        batches = list(iterate_headers(answer.records or b"", allow_partial_tail=True))
        if not batches:
            return found
        for position, header in batches:
            found += [(record.offset, record.value) for record in iterate_records(answer.records, position)]
            offset = header.next_offset


def meddler(random: Random, *, probability: float) -> Any:
    """A proxy that loses, repeats and delays whole requests and answers.

    A request is lost only together with its connection, as TCP has it: a broker that never met the producer takes the
    first sequence it sees, so a request that vanished in front of another would never be welcome again.
    """

    def decide(frame: Frame) -> Verdict:
        if random.random() > probability:
            return DELIVER
        loss = RESET if frame.to_server else DROP
        return random.choice((loss, REPEAT, RESET, Verdict(delay_ms=random.uniform(1, 3_000))))

    return decide


async def inject_faults(simulation: Simulation, broker: VirtualHost, start: Any) -> None:
    """Everything that can happen to a broker, for a while; then peace."""
    random = simulation.random("torment")
    for _ in range(random.randint(3, 8)):
        await asyncio.sleep(random.uniform(0.01, 2.0))
        fault = random.randrange(6)
        if fault < WAYS:
            kill_host(broker, fault, random, operations_max=60)
        elif fault == 4:
            simulation.network.partition(BROKER, "clients")
            await asyncio.sleep(random.uniform(0.1, 5.0))
            simulation.network.heal()
        else:
            broker.pause()
            await asyncio.sleep(random.uniform(0.1, 5.0))
            broker.resume()
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not broker.alive:
            start()
    broker.disk.repair()
    if not broker.alive:
        start()


async def idempotent_producers_under_faults(simulation: Simulation) -> None:
    random, broker, clients = simulation.random("test"), simulation.host(BROKER), simulation.host("clients")
    settings = {"flush": "commit", "log.segment.bytes": str(1024 * 1024)}

    def start() -> None:
        broker.start(serve(broker, simulation.random(f"broker {simulation.loop.time()}"), settings))

    def client() -> WireClient:
        return WireClient(clients.network, BROKER, PORT)

    start()
    simulation.network.interceptor = meddler(simulation.random("meddler"), probability=0.05)
    await create_topic(client())
    producers = [IdempotentProducer(f"p{n}", client(), random.randrange(PARTITIONS)) for n in range(4)]
    running = [asyncio.ensure_future(producer.run()) for producer in producers]
    await inject_faults(simulation, broker, start)
    simulation.network.interceptor = None
    await asyncio.gather(*running)

    for partition in range(PARTITIONS):
        found = await read_all(client(), partition)
        check(found, [producer for producer in producers if producer.partition == partition])
        simulation.trace.record(f"{TopicPartition(TOPIC, partition)}: {len(found)} records")


def check(found: list[tuple[int, bytes | None]], producers: Sequence[IdempotentProducer]) -> None:
    assert [offset for offset, _ in found] == list(range(len(found))), "offsets have gaps"
    for producer in producers:
        own = [value for _, value in found if value is not None and value.startswith(f"{producer.name}-".encode())]
        assert own == producer.values, f"{producer.name}: not every record once and in order"
        where = {value: offset for offset, value in found}
        assert {number: where[producer.values[number]] for number in producer.offsets} == producer.offsets
    assert len(found) == sum(len(producer.values) for producer in producers), "records that nobody sent"


@pytest.mark.parametrize("seed", seeds(25))
def test_idempotent_producers_lose_and_double_nothing(seed: int) -> None:
    """Scenarios 1, 6, 7, 10 and 67, against the whole broker."""
    simulate(seed, idempotent_producers_under_faults)


def test_the_same_seed_is_the_same_run_under_another_hash_seed() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        command = [
            sys.executable,
            "-m",
            "semel.testing.simulation",
            f"{__file__}:idempotent_producers_under_faults",
            "--seed",
            "7",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.getcwd()}
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        digests.add(output.split("digest")[1])
    assert len(digests) == 1
