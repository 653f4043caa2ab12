"""Whatever raises inside a client's driver fails every future that it holds, and closes the client, which says why.

An exception is planted in every step (``planted_exceptions``), before anything was sent or in the middle of work, and
everything that can be waited for is waited for. The broker is real; time is virtual, so a future that hangs is seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from semel import Admin, Consumer, Producer
from semel.errors import ClientFailed, StateError
from semel.testing.simulation import Simulation, run
from tests.simulation.planted_exceptions import (
    NEEDS_A_LOSS,
    OF_A_PRODUCER,
    OF_ALL,
    Planned,
    Plant,
    Planted,
    PlantedNetwork,
)
from tests.simulation.served_broker import BROKER, PORT, ServedBroker, create_topic

TOPIC = "orders"
DONE_S_MAX = 20.0
"""Less than any timeout of a client that could end a wait, too."""

MOMENTS = ["at first", "in the middle"]
SETTINGS = {"bootstrap_servers": f"{BROKER}:{PORT}", "request_timeout_ms": 60_000}


class Bench:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.served = ServedBroker(simulation, group_initial_rebalance_delay_ms="0", num_partitions="2")
        self.network = PlantedNetwork(simulation.host("client").network)

    async def start(self) -> None:
        self.served.start()
        await create_topic(self.served.client(), TOPIC, 2)

    def seams(self) -> dict[str, Any]:
        clock = self.simulation.host("client").clock
        return {"network": self.network, "clock": clock, "random": self.simulation.random("client"), **SETTINGS}

    async def lose_connections(self) -> None:
        self.simulation.network.reset("client", BROKER)


async def outcomes_of(waited_for: list[Awaitable[Any]]) -> list[Any]:
    """What became of each; none may take longer than ``DONE_S_MAX``."""
    async with asyncio.timeout(DONE_S_MAX):
        return await asyncio.gather(*waited_for, return_exceptions=True)


def started(*calls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(call) for call in calls]


async def called(call: Callable[[], Any]) -> None:
    outcome = call()
    if asyncio.iscoroutine(outcome):
        await outcome


async def check_closed(
    client: Any, planted: Planted, caplog: pytest.LogCaptureFixture, later: list[Any], title: str
) -> None:
    assert planted.network.open_count == 0, "a connection was not aborted"
    why = rf"the {title} is closed since it has failed: Planned\('planted'\)"
    for call in later:
        with pytest.raises(StateError, match=why):
            await called(call)
    async with asyncio.timeout(DONE_S_MAX):
        await client.close()
        await client.close()
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == [f"the {title} failed inside, and is closed"]
    assert errors[0].exc_info is not None
    assert isinstance(errors[0].exc_info[1], Planned)


# Producers


async def waited_for_by(producer: Producer) -> list[Awaitable[Any]]:
    """Records in a batch, records that wait for a topic and for room, bulks, and calls that wait."""
    records = [producer.send(TOPIC, bytes(300), partition=number % 2) for number in range(6)]
    records += [producer.send(f"new-{number}", b"v") for number in range(2)]
    records.append(producer.send_many(TOPIC, [bytes(200)] * 20))  # type: ignore[arg-type]
    records += [producer.send(TOPIC, bytes(300)) for _ in range(3)]
    calls = started(producer.drain(), producer.flush(), producer.partitions_for("newest"))
    await asyncio.sleep(0)
    return [*records, *calls]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", [*OF_ALL, *OF_A_PRODUCER])
def test_a_producer_that_fails_inside_fails_everything(
    step: str, moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    plant: Plant = {**OF_ALL, **OF_A_PRODUCER}[step]

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        producer = Producer(**bench.seams(), buffer_memory=3_000, batch_size=700, linger_ms=20)
        await producer.start()
        if moment == "in the middle":
            await producer.send(TOPIC, b"before", partition=0)
        planted = Planted(producer._session.machine, producer._runtime.driver, bench.network)  # type: ignore[arg-type]
        if step == "tell":
            plant(planted)  # In the futures of what is sent next.
        waited_for = await waited_for_by(producer)
        plant(planted)
        if step == "place bulk":
            waited_for.append(producer.send_many(TOPIC, [b"v"]))  # The first is placed already.
        if step in NEEDS_A_LOSS:
            await asyncio.sleep(0.001)
            await bench.lose_connections()
        outcomes = await outcomes_of(waited_for)
        assert any(isinstance(outcome, ClientFailed) for outcome in outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                assert isinstance(outcome, ClientFailed), repr(outcome)
                assert isinstance(outcome.__cause__, Planned)
                assert "the producer failed inside, and is closed: Planned: planted" in str(outcome)
        later = [
            lambda: producer.send(TOPIC, b"later"),
            lambda: producer.send(TOPIC, b"later", partition=0),
            lambda: producer.send_many(TOPIC, [b"later"]),
            producer.flush,
            producer.drain,
            lambda: producer.partitions_for(TOPIC),
        ]
        await check_closed(producer, planted, caplog, later, "producer")

    run(scenario)


@pytest.mark.parametrize("step", [*OF_ALL, "encode", "settle"])
def test_a_transaction_that_fails_inside_is_told(step: str, caplog: pytest.LogCaptureFixture) -> None:
    plant: Plant = {**OF_ALL, **OF_A_PRODUCER}[step]

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        producer = Producer(**bench.seams(), transactional_id="billing-1")
        await producer.init()
        producer.begin()
        await producer.send(TOPIC, b"before", partition=0)
        planted = Planted(producer._session.machine, producer._runtime.driver, bench.network)  # type: ignore[arg-type]
        record = producer.send(TOPIC, b"v", partition=1)
        waited_for = [record, *started(producer.send_offsets({(TOPIC, 0): 1}, "group"), producer.commit())]
        await asyncio.sleep(0)
        plant(planted)
        if step in NEEDS_A_LOSS:
            await asyncio.sleep(0.001)
            await bench.lose_connections()
        outcomes = await outcomes_of(waited_for)
        assert isinstance(outcomes[-1], ClientFailed), "the commit was not told"
        later = [producer.begin, producer.commit, producer.abort, lambda: producer.send(TOPIC, b"later")]
        await check_closed(producer, planted, caplog, later, "producer")

    run(scenario)


@pytest.mark.parametrize("step", ["poll", "encode", "received"])
def test_a_producer_that_fails_while_it_is_closed_says_so(step: str, caplog: pytest.LogCaptureFixture) -> None:
    """The program has left its ``async with``, and must not believe that everything was sent."""
    plant: Plant = {**OF_ALL, **OF_A_PRODUCER}[step]

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        producer = Producer(**bench.seams())
        await producer.send(TOPIC, b"before", partition=0)
        record = producer.send(TOPIC, b"v", partition=0)
        plant(Planted(producer._session.machine, producer._runtime.driver, bench.network))  # type: ignore[arg-type]
        with pytest.raises(ClientFailed, match="planted"):
            await producer.__aexit__(None, None, None)
        assert isinstance(record.exception(), ClientFailed)
        assert bench.network.open_count == 0

    run(scenario)


# Consumers


@pytest.mark.parametrize("group", [None, "billing"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", OF_ALL)
def test_a_consumer_that_fails_inside_fails_everything(
    step: str, moment: str, group: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        async with Producer(**bench.seams()) as producer:
            await producer.send(TOPIC, b"v", partition=0)
        consumer = Consumer(**bench.seams(), group_id=group, auto_offset_reset="earliest", fetch_max_wait_ms=100)
        await consumer.start()
        if group is None:
            consumer.assign([(TOPIC, 0)])
        else:
            consumer.subscribe([TOPIC])
        if moment == "in the middle":
            assert await consumer.poll()
        planted = Planted(consumer._session.machine, consumer._runtime.driver, bench.network)  # type: ignore[arg-type]
        calls = [consumer.poll(), consumer.end_offsets([(TOPIC, 1)]), consumer.partitions_for("new")]
        waited_for: list[Awaitable[Any]] = [*started(*calls)]
        if group is not None:
            waited_for += started(consumer.committed([(TOPIC, 1)]))
            if moment == "in the middle":
                waited_for.append(consumer.commit_async())
        await asyncio.sleep(0)
        OF_ALL[step](planted)
        if step in NEEDS_A_LOSS:
            await asyncio.sleep(0.001)
            await bench.lose_connections()
        outcomes = await outcomes_of(waited_for)
        assert isinstance(outcomes[0], ClientFailed), "poll was not told"
        for outcome in outcomes:
            assert not isinstance(outcome, Exception) or isinstance(outcome, ClientFailed), repr(outcome)
        later = [
            consumer.poll,
            lambda: consumer.__anext__(),
            lambda: consumer.seek((TOPIC, 0), 0),
            lambda: consumer.end_offsets([(TOPIC, 0)]),
            lambda: consumer.partitions_for(TOPIC),
        ]
        if group is not None:
            later += [consumer.commit, consumer.commit_async, consumer.rewind]
        await check_closed(consumer, planted, caplog, later, "consumer")

    run(scenario)


@pytest.mark.parametrize("step", ["poll", "received", "turned"])
def test_a_consumer_that_fails_while_it_is_closed_says_so_and_is_closed(step: str) -> None:
    """What it had read may not be committed."""

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        async with Producer(**bench.seams()) as producer:
            await producer.send(TOPIC, b"v", partition=0)
        consumer = Consumer(**bench.seams(), group_id="billing", auto_offset_reset="earliest")
        consumer.subscribe([TOPIC])
        assert await consumer.poll()
        OF_ALL[step](Planted(consumer._session.machine, consumer._runtime.driver, bench.network))  # type: ignore[arg-type]
        async with asyncio.timeout(DONE_S_MAX):
            with pytest.raises(ClientFailed, match="planted"):
                await consumer.close()
            await consumer.close()
        assert bench.network.open_count == 0

    run(scenario)


def test_a_loop_over_records_does_not_just_end_when_the_consumer_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        consumer = Consumer(**bench.seams(), auto_offset_reset="earliest")
        consumer.assign([(TOPIC, 0)])
        await consumer.start()
        planted = Planted(consumer._session.machine, consumer._runtime.driver, bench.network)  # type: ignore[arg-type]
        OF_ALL["received"](planted)
        with pytest.raises(ClientFailed):
            async for _ in consumer:
                pass
        with pytest.raises(StateError, match="planted"):
            async for _ in consumer:
                pass
        await consumer.close()

    run(scenario)


# Admin clients


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", OF_ALL)
def test_an_admin_client_that_fails_inside_fails_everything(
    step: str, moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        admin = Admin(**bench.seams())
        await admin.start()
        if moment == "in the middle":
            await admin.topics.list()
        planted = Planted(admin._machine, admin._requests.running(), bench.network)
        waited_for: list[Awaitable[Any]] = [
            *started(admin.topics.list(), admin.groups.list(), admin.cluster.describe())
        ]
        await asyncio.sleep(0)
        OF_ALL[step](planted)
        if step in NEEDS_A_LOSS:
            await asyncio.sleep(0.001)
            await bench.lose_connections()
        outcomes = await outcomes_of(waited_for)
        assert all(isinstance(outcome, ClientFailed) for outcome in outcomes), outcomes
        await check_closed(admin, planted, caplog, [admin.topics.list, admin.cluster.describe], "admin client")

    run(scenario)


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_a_client_whose_machine_cannot_be_shut_is_closed_all_the_same(
    kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        client = kind(**bench.seams())
        await client.start()
        machine = client._machine if kind is Admin else client._session.machine
        machine.shut = lambda now_ms: 1 / 0
        async with asyncio.timeout(DONE_S_MAX):
            await client.close()
        assert "ZeroDivisionError" in caplog.text

    run(scenario)
