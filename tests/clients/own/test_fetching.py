"""The consumer's fetches on our own broker: sessions over many partitions, lag, seeking by time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from semel import Consumer, Producer, blocking
from semel.testing import Broker
from semel.types import TopicPartition
from tests.clients.waiting import run
from tools.patience import PATIENCE_MS

PARTITIONS = 12


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=PARTITIONS) as running:
        yield running


def partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(PARTITIONS)]


def requests_in_session(consumer: Consumer) -> list[int]:
    """How many requests each session has had, by broker."""
    return [session._epoch for session in consumer._session.machine._fetcher._sessions.values()]


async def write(producer: Producer, topic: str, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    await producer.flush()


async def read(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += [int(record.value or b"") for record in await consumer.poll()]
    return found


def test_a_session_goes_on_while_partitions_are_paused_sought_and_written_to(broker: Broker) -> None:
    async def scenario() -> None:
        async with (
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
            Consumer(
                bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=20
            ) as consumer,
        ):
            await write(producer, "in-session", 60)
            consumer.assign(partitions("in-session"))
            assert sorted(await read(consumer, 60)) == list(range(60))
            consumer.pause(("in-session", 3))
            await write(producer, "in-session", 60, start=60)
            seen = await read(consumer, 55)
            assert all(number % PARTITIONS != 3 for number in seen)
            consumer.resume(("in-session", 3))
            seen += await read(consumer, 5)
            assert sorted(seen) == list(range(60, 120))
            consumer.seek(("in-session", 5), 0)
            assert await read(consumer, 10) == [number for number in range(120) if number % PARTITIONS == 5]
            assert [epoch > 3 for epoch in requests_in_session(consumer)] == [True]

    run(scenario())


def test_a_broker_that_comes_back_has_forgotten_the_session_and_nothing_is_skipped() -> None:
    async def scenario() -> None:
        async with (
            Broker(num_partitions=PARTITIONS) as broker,
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
            Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer,
        ):
            await write(producer, "again", 24)
            consumer.assign(partitions("again"))
            seen = await read(consumer, 24)
            await asyncio.to_thread(broker.restart, kill=True)
            await write(producer, "again", 24, start=24)
            seen += await read(consumer, 24)
            assert sorted(seen) == list(range(48))

    run(scenario())


def test_the_lag_comes_to_zero_behind_committed_and_aborted_transactions(broker: Broker) -> None:
    """Scenario 72: whoever waits for the end must reach it."""

    async def scenario() -> None:
        async with (
            Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="lagging") as producer,
            Consumer(
                bootstrap_servers=broker.bootstrap_servers,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer,
        ):
            for number, committed in enumerate([True, True, False]):
                producer.begin()
                await producer.send("lagging", b"%d" % number, partition=0)
                await (producer.commit() if committed else producer.abort())
            consumer.assign([("lagging", 0)])
            assert await consumer.lag(("lagging", 0)) >= 4, "the last marker may still be on its way"
            seen = []
            while await consumer.position(("lagging", 0)) < 6:
                seen += await consumer.poll(100)
            assert [record.value for record in seen] == [b"0", b"1"]
            assert await consumer.lag(("lagging", 0)) == 0

    run(scenario())


def test_seeking_by_time_in_both_clients(broker: Broker) -> None:
    async def write_with_times() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for time in (1_000, 2_000, 3_000):
                await producer.send("by-time", b"%d" % time, partition=0, timestamp=time)

    run(write_with_times())
    with blocking.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("by-time", 0)])
        consumer.seek_to_time(1_500)
        assert [record.value for record in consumer.poll(PATIENCE_MS)] == [b"2000", b"3000"]
        assert consumer.lag(("by-time", 0)) == 0
        consumer.seek_to_time(9_000, ("by-time", 0))
        assert consumer.position(("by-time", 0)) == 3
        with pytest.raises(ValueError, match="timestamp -1"):
            consumer.seek_to_time(-1)
