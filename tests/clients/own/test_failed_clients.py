"""Clients in threads of their own that fail inside: no thread is left waiting, and the client can be closed.

The broker is a socket that accepts and never answers, so everything that is asked is waited for when the exception is
planted. ``tests/simulation/test_failed_clients.py`` plants one in every step; here are those that need no answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from semel import Consumer, blocking
from semel.errors import ClientFailed, StateError
from tests.simulation.planted_exceptions import OF_ALL, Planned, Planted, PlantedNetwork
from tools.patience import PATIENCE_S

STEPS = ["poll", "next_deadline_ms", "set_timer", "turned"]


@pytest.fixture
def servers() -> Iterator[str]:
    """The address of a broker that never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def plant(step: str, runtime: Any) -> None:
    driver = runtime.driver
    OF_ALL[step](Planted(runtime.machine, driver, PlantedNetwork(driver._network)))
    driver.wake()


def outcomes(waited_for: list[Future[Any]]) -> list[BaseException | None]:
    return [future.exception(PATIENCE_S) for future in waited_for]


def check_told(errors: list[BaseException | None]) -> None:
    for error in errors:
        # A thread that came too late is told the same, as of a client that is closed.
        assert isinstance(error, ClientFailed | StateError), repr(error)
        assert "planted" in str(error)


def check_later(*calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(StateError, match=r"is closed since it has failed: Planned\('planted'\)"):
            call()


@pytest.mark.parametrize("step", STEPS)
def test_a_blocking_producer(step: str, servers: str) -> None:
    producer = blocking.Producer(bootstrap_servers=servers, buffer_memory=1_000)
    records = [producer.send("orders", bytes(100)) for _ in range(5)]
    with ThreadPoolExecutor() as threads:
        calls: list[Future[Any]] = [
            threads.submit(producer.flush),
            threads.submit(producer.partitions_for, "orders"),
            threads.submit(producer.send, "orders", bytes(2_000)),  # It waits for room.
            threads.submit(producer.send_many, "orders", [bytes(100)] * 50),
        ]
        plant(step, producer._runtime)
        for error in outcomes(records):
            assert isinstance(error, ClientFailed)
            assert isinstance(error.__cause__, Planned)
        check_told(outcomes(calls[:2]))
        for call in calls[2:]:
            error = call.exception(PATIENCE_S)
            check_told([error if error is not None else call.result().exception(PATIENCE_S)])
        check_later(
            lambda: producer.send("orders", b"later"), producer.flush, lambda: producer.partitions_for("orders")
        )
        threads.submit(producer.close).result(PATIENCE_S)


@pytest.mark.parametrize("step", STEPS)
def test_a_blocking_consumer(step: str, servers: str) -> None:
    consumer = blocking.Consumer(bootstrap_servers=servers, group_id="billing")
    consumer.assign([("orders", 0)])
    commit = consumer.commit_async({("orders", 0): 1})
    with ThreadPoolExecutor() as threads:
        calls: list[Future[Any]] = [
            commit,
            threads.submit(consumer.poll),
            threads.submit(next, iter(consumer)),
            threads.submit(consumer.end_offsets, [("orders", 0)]),
            threads.submit(consumer.committed, [("orders", 0)]),
        ]
        plant(step, consumer._session.runtime)
        check_told(outcomes(calls))
        check_later(consumer.poll, lambda: next(consumer), consumer.commit, consumer.commit_async, consumer.positions)
        threads.submit(consumer.close).result(PATIENCE_S)


@pytest.mark.parametrize("step", STEPS)
def test_a_blocking_admin_client(step: str, servers: str) -> None:
    admin = blocking.Admin(bootstrap_servers=servers)
    with ThreadPoolExecutor() as threads:
        calls: list[Future[Any]] = [
            threads.submit(admin.topics.list),
            threads.submit(admin.groups.list),
            threads.submit(admin.cluster.describe),
        ]
        plant(step, admin._admin._requests._runtime)
        check_told(outcomes(calls))
        check_later(admin.topics.list)
        threads.submit(admin.close).result(PATIENCE_S)


@pytest.mark.parametrize("step", STEPS)
def test_an_asyncio_consumer_whose_connections_are_in_a_thread(step: str, servers: str) -> None:
    async def scenario() -> None:
        consumer = Consumer(bootstrap_servers=servers, group_id="billing")
        consumer.subscribe(["orders"])
        await consumer.start()
        calls = [consumer.poll(), consumer.end_offsets([("orders", 0)]), consumer.committed([("orders", 0)])]
        tasks = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0)
        plant(step, consumer._runtime)
        async with asyncio.timeout(PATIENCE_S):
            check_told(await asyncio.gather(*tasks, return_exceptions=True))  # type: ignore[arg-type]
            with pytest.raises(StateError, match="planted"):
                await consumer.poll()
            await consumer.close()
        thread = consumer._runtime._thread
        assert thread is not None
        assert not thread.is_running

    asyncio.run(scenario())
