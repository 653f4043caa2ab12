"""An application that blocks its event loop stays a member of its group, until it is away for max.poll.interval.ms."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from semel import Consumer, TopicPartition, blocking
from semel.errors import StateError
from semel.testing import Broker
from tools.patience import PATIENCE_MS, PATIENCE_S, wait_until

CLASSIC = {"heartbeat_interval_ms": 50}
MODERN = {"group_protocol": "consumer"}
APIS = {"classic": "Heartbeat", "consumer": "ConsumerGroupHeartbeat"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group_consumer_min_heartbeat_interval_ms": 50, "group_consumer_heartbeat_interval_ms": 50}
    with Broker(num_partitions=2, group_initial_rebalance_delay_ms=0, **settings) as running:
        with blocking.Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.topics.create("orders")
        yield running


@pytest.fixture(params=[CLASSIC, MODERN], ids=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


class Listener:
    def __init__(self) -> None:
        self.changes: list[tuple[str, int]] = []

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.changes.append(("assigned", threading.get_ident()))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.changes.append(("revoked", threading.get_ident()))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.changes.append(("lost", threading.get_ident()))


def heartbeats(broker: Broker, protocol: dict[str, Any]) -> int:
    """How many the broker has answered."""
    assert broker._broker is not None
    name = f'semel_requests_total{{api="{APIS[protocol.get("group_protocol", "classic")]}"}} '
    counted = [line for line in broker._broker.metrics.render().splitlines() if line.startswith(name)]
    return int(counted[0].removeprefix(name)) if counted else 0


def members(broker: Broker, group: str) -> int:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return len(admin.groups.describe(group).members)


async def assigned(consumer: Consumer) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(consumer.assignment) < 2:
            await consumer.poll(50)


def test_heartbeats_go_on_while_the_loop_is_blocked(broker: Broker, protocol: dict[str, Any]) -> None:
    async def scenario() -> None:
        listener, group = Listener(), f"blocked {protocol}"
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group, **protocol) as consumer:
            consumer.subscribe(["orders"], listener=listener)
            await assigned(consumer)
            member, before = consumer.group_metadata(), heartbeats(broker, protocol)
            wait_until(lambda: heartbeats(broker, protocol) >= before + 5)  # The loop does not go on meanwhile.
            await consumer.commit({("orders", 0): 0})
            assert consumer.group_metadata() == member
        here = threading.get_ident()
        assert listener.changes == [("assigned", here), ("revoked", here)]

    asyncio.run(scenario())


def test_a_loop_that_is_blocked_for_longer_than_max_poll_interval_ms_costs_the_membership(
    broker: Broker, protocol: dict[str, Any]
) -> None:
    """Also when it is blocked within ``poll``, by another task: there is a record, and nothing takes it."""

    async def scenario() -> None:
        listener, group, topic = Listener(), f"stuck {protocol}", f"topic-{protocol.get('group_protocol')}"
        settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, **protocol}
        async with Consumer(**settings, max_poll_interval_ms=2_000, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic], listener=listener)
            await assigned(consumer)
            polling = asyncio.ensure_future(consumer.poll(PATIENCE_MS))
            await asyncio.sleep(0)
            with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send(topic, b"a").result(PATIENCE_S)
            wait_until(lambda: members(broker, group) == 0)
            records = await polling
            while not records:
                records = await consumer.poll(PATIENCE_MS)
            assert [record.value for record in records] == [b"a"]
            assert "lost" in [change for change, _ in listener.changes]

    asyncio.run(scenario())


def test_what_is_committed_without_waiting_is_told_in_the_applications_loop(broker: Broker) -> None:
    async def scenario() -> None:
        threads: list[int] = []
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="told") as consumer:
            future = consumer.commit_async({("orders", 0): 0})
            future.add_done_callback(lambda _: threads.append(threading.get_ident()))
            await future
            await asyncio.sleep(0)
        assert threads == [threading.get_ident()]

    asyncio.run(scenario())


def test_use_after_fork_raises_even_if_the_lock_was_held(broker: Broker) -> None:
    async def scenario() -> str:
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="forked") as consumer:
            consumer.subscribe(["orders"])
            await assigned(consumer)
            reader, writer = os.pipe()
            held, let_go = threading.Event(), threading.Event()
            holding = threading.Thread(target=hold, args=(consumer._runtime.guard, held, let_go))
            holding.start()
            held.wait()
            child = os.fork()
            if child == 0:
                os.write(writer, "|".join(refusals(consumer)).encode())
                os._exit(0)
            let_go.set()
            holding.join()
            os.waitpid(child, 0)
            os.close(writer)
            said = os.read(reader, 10_000).decode()
            os.close(reader)
            return said

    said = asyncio.run(scenario()).split("|")
    assert len(said) == 4
    assert all("make one in every process" in text for text in said)


def hold(guard: AbstractContextManager[Any], held: threading.Event, let_go: threading.Event) -> None:
    with guard:
        held.set()
        let_go.wait()


def refusals(consumer: Consumer) -> Iterator[str]:
    """What is said of each call; a coroutine is run as far as it comes without waiting."""
    for call in (
        lambda: consumer.assignment,
        lambda: consumer.seek(("orders", 0), 0),
        lambda: consumer.poll(0).send(None),
        lambda: consumer.close().send(None),
    ):
        try:
            call()
            yield "nothing"
        except StateError as error:
            yield str(error)


def test_a_consumer_that_is_forgotten_leaves_no_thread_behind(broker: Broker) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="forgotten")
        consumer.subscribe(["orders"])
        await assigned(consumer)
        assert not before.issuperset(threading.enumerate())

    asyncio.run(scenario())
    gc.collect()
    wait_until(lambda: before.issuperset(threading.enumerate()))


def test_a_consumer_that_is_closed_leaves_no_thread_behind_and_one_without_a_group_has_none(broker: Broker) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        async with Consumer(bootstrap_servers=broker.bootstrap_servers) as alone:
            alone.assign([("orders", 0)])
            assert before.issuperset(threading.enumerate())
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="closed") as member:
            member.subscribe(["orders"])
            await assigned(member)

    asyncio.run(scenario())
    wait_until(lambda: before.issuperset(threading.enumerate()))
