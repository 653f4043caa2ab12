"""Clients that are over their quotas, in virtual time: they get what the quota says, and no other client waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from semel.errors import ErrorCode
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import ClusterImage
from semel.metadata.security.quota_changes import QuotaEntry, QuotaResult, alter_client_quotas
from semel.testing.simulation import Simulation, run
from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from tests.broker.raw_client import batch, fetch_request, produce_request
from tests.simulation.served_broker import BROKER, CLIENTS, PORT, ServedBroker, create_topic
from tests.simulation.wire_client import WireClient

TOPIC = "orders"
NOON_MS = 1_700_000_000_000
RECORDS = batch(b"x" * 10_000, timestamp=NOON_MS)
QUOTA = 50_000.0
# The windows before the first request are silent: this much may be used at once.
BURST_S = 10.0


class Bench:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.served = ServedBroker(simulation)

    async def start(self, *quotas: tuple[tuple[tuple[str, str | None], ...], str, float]) -> None:
        self.served.start()
        await self.served.until_up()
        await create_topic(self.client("admin"), TOPIC, 1)
        entries = [QuotaEntry(parts, ((name, value),)) for parts, name, value in quotas]

        def decide(image: ClusterImage) -> MetadataDecision[QuotaResult]:
            return alter_client_quotas(image, entries)

        await self.served.broker.node.cluster.change(decide)

    def client(self, client_id: str) -> WireClient:
        network = self.simulation.host(CLIENTS).network
        return WireClient(network, BROKER, PORT, timeout_s=1000.0, client_id=client_id)

    def now_s(self) -> float:
        return self.simulation.loop.time()

    async def throughput(
        self, ask: Callable[[], Awaitable[int]], *, from_s: float, until_s: float, in_flight: int = 1
    ) -> float:
        """How much a second a client gets that asks again and again, whatever ``throttle_time_ms`` it is told."""
        began_s, counted = self.now_s(), 0

        async def asking() -> None:
            nonlocal counted
            while (at_s := self.now_s() - began_s) < until_s:
                amount = await ask()
                if at_s >= from_s:
                    counted += amount

        await asyncio.gather(*(asking() for _ in range(in_flight)))
        return counted / (self.now_s() - began_s - from_s)

    async def slowest(self, ask: Callable[[], Awaitable[Any]], *, until_s: float) -> float:
        began_s, longest_s = self.now_s(), 0.0
        while self.now_s() - began_s < until_s:
            asked_s = self.now_s()
            await ask()
            longest_s = max(longest_s, self.now_s() - asked_s)
            await asyncio.sleep(0.2)
        return longest_s


def produces(client: WireClient) -> Callable[[], Awaitable[int]]:
    async def ask() -> int:
        answer = await client.call(ApiKey.PRODUCE, 9, produce_request(TOPIC, RECORDS))
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        return len(RECORDS)

    return ask


def fetches(client: WireClient) -> Callable[[], Awaitable[int]]:
    async def ask() -> int:
        answer = await client.call(ApiKey.FETCH, 12, fetch_request(TOPIC, 0, max_bytes=20_000))
        (topic,) = answer.responses
        return len(topic.partitions[0].records or b"")

    return ask


CLIENT = (("client-id", "greedy"),)


@pytest.mark.parametrize("in_flight", [1, 5])
def test_a_producer_over_its_quota_gets_its_quota_and_no_other_client_waits(in_flight: int) -> None:
    async def scenario(simulation: Simulation) -> tuple[float, float]:
        bench = Bench(simulation)
        await bench.start((CLIENT, "producer_byte_rate", QUOTA))
        greedy, modest = bench.client("greedy"), bench.client("modest")
        got, longest_s = await asyncio.gather(
            bench.throughput(produces(greedy), from_s=BURST_S + 5, until_s=90, in_flight=in_flight),
            bench.slowest(produces(modest), until_s=90),
        )
        return got, longest_s

    got, longest_s = run(scenario, seed=in_flight)
    assert QUOTA * 0.85 < got < QUOTA * 1.1
    assert longest_s < 0.1


def test_a_consumer_over_its_quota_gets_its_quota_and_no_other_client_waits() -> None:
    async def scenario(simulation: Simulation) -> tuple[float, float]:
        bench = Bench(simulation)
        await bench.start((CLIENT, "consumer_byte_rate", QUOTA))
        greedy, modest = bench.client("greedy"), bench.client("modest")
        for _ in range(5):
            await produces(modest)()
        got, longest_s = await asyncio.gather(
            bench.throughput(fetches(greedy), from_s=BURST_S + 5, until_s=90),
            bench.slowest(fetches(modest), until_s=90),
        )
        return got, longest_s

    got, longest_s = run(scenario)
    assert QUOTA * 0.85 < got < QUOTA * 1.1
    assert longest_s < 0.1


def test_clients_of_one_user_use_its_quota_up_together_and_those_of_a_default_each_their_own() -> None:
    async def scenario(simulation: Simulation, *parts: tuple[str, str | None]) -> list[float]:
        bench = Bench(simulation)
        await bench.start((parts, "producer_byte_rate", QUOTA))
        clients = [bench.client(f"greedy-{number}") for number in range(2)]
        return await asyncio.gather(
            *(bench.throughput(produces(client), from_s=BURST_S + 5, until_s=90) for client in clients)
        )

    together = run(lambda simulation: scenario(simulation, ("user", "ANONYMOUS")))
    assert QUOTA * 0.85 < sum(together) < QUOTA * 1.1
    alone = run(lambda simulation: scenario(simulation, ("client-id", None)))
    assert [QUOTA * 0.85 < got < QUOTA * 1.1 for got in alone] == [True, True]


def test_the_answer_comes_first_with_its_throttle_time_and_then_nothing_until_that_is_over() -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start((CLIENT, "producer_byte_rate", 1000.0))
        client, other_connection = bench.client("greedy"), bench.client("greedy")
        asked_s = bench.now_s()
        answer = await client.call(ApiKey.PRODUCE, 9, produce_request(TOPIC, batch(b"x" * 15_000, timestamp=NOON_MS)))
        assert bench.now_s() - asked_s < 0.1, "it is answered at once"
        assert bench.served.broker.metrics.throttled.value == 1
        muted_s = answer.throttle_time_ms / 1000
        assert 5.0 < muted_s < 5.3, "15 KB at 1 KB a second, of which ten seconds were silent"
        muted_at_s = bench.now_s()
        await client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("test", "1"))
        assert bench.now_s() - muted_at_s == pytest.approx(muted_s, abs=0.05)
        quiet = await other_connection.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("test", "1"))
        assert quiet.throttle_time_ms == 0

    run(scenario)


def test_quotas_hold_from_the_next_request_and_end_with_their_removal() -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        client = bench.client("greedy")
        node = bench.served.broker.node
        assert node.quotas is None

        async def throttle_time_ms() -> int:
            records = batch(b"x" * 15_000, timestamp=NOON_MS)
            answer = await client.call(ApiKey.PRODUCE, 9, produce_request(TOPIC, records))
            muted_ms: int = answer.throttle_time_ms
            return muted_ms

        async def set_quota(value: float | None) -> None:
            entry = QuotaEntry(CLIENT, (("producer_byte_rate", value),))
            await node.cluster.change(lambda image: alter_client_quotas(image, [entry]))

        assert await throttle_time_ms() == 0
        await set_quota(1000.0)
        assert await throttle_time_ms() > 0
        await set_quota(None)
        assert await throttle_time_ms() == 0
        assert node.quotas is None

    run(scenario)


def test_a_client_that_has_used_up_its_changes_of_topics_is_refused_until_it_has_waited() -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start((CLIENT, "controller_mutation_rate", 2.0))
        client = bench.client("greedy")

        async def create(*names: str, version: int = 7) -> tuple[list[int], int]:
            topics = [CreatableTopic(name=name, num_partitions=30, replication_factor=1) for name in names]
            answer = await client.call(ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=topics))
            return [result.error_code for result in answer.topics], answer.throttle_time_ms

        # A burst of 22 is allowed; the first that is above it is served, since the quota was not used up before.
        refused = [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert await create("a", "b") == (refused, 4000), "30 of 22, at 2 a second"
        assert await create("b") == ([ErrorCode.NONE], 0), "after it was muted"
        codes, throttle_time_ms = await create("c", version=5)
        assert codes == [ErrorCode.NONE], "older clients do not know the error"
        assert throttle_time_ms > 0
        await client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["a"]))
        assert "a" not in bench.served.broker.node.image.topics
        other = bench.client("modest")
        topic = CreatableTopic(name="d", num_partitions=30, replication_factor=1)
        answer = await other.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]))
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (ErrorCode.NONE, 0)

    run(scenario)
