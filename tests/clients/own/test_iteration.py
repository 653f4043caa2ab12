"""Whoever iterates over a consumer is given one record after the other, as if each had been polled for.

Records are fetched and decoded many at a time; nothing of that may be seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import pytest

from semel import Consumer, ConsumerRecord, DeserializationError, blocking
from semel.testing import Broker
from semel.types import TopicPartition
from tests.clients.waiting import eventually
from tools.patience import PATIENCE_MS, PATIENCE_S

TOPIC = "iterated"
COUNT = 300
PARTITIONS = FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Reader(Protocol):
    """A consumer of either kind."""

    consumer: Any

    def next(self) -> ConsumerRecord | None:
        """``None``: the iteration is over."""

    def run(self, answer: Any) -> Any:
        """What a call of the consumer comes to, awaited if it has to be."""

    def close(self) -> None: ...


class AsyncReader:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        self.consumer = Consumer(**settings)

    def next(self) -> ConsumerRecord | None:
        async def one() -> ConsumerRecord | None:
            async with asyncio.timeout(PATIENCE_S):
                return await anext(self.consumer, None)

        return self._runner.run(one())

    def run(self, answer: Any) -> Any:
        return self._runner.run(answer)

    def close(self) -> None:
        self._runner.run(self.consumer.close())
        self._runner.close()


class BlockingReader:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.consumer = blocking.Consumer(**settings)

    def next(self) -> ConsumerRecord | None:
        return next(self.consumer, None)

    def run(self, answer: Any) -> Any:
        return answer

    def close(self) -> None:
        self.consumer.close()


Begin: TypeAlias = Callable[..., Reader]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2) as running:
        with blocking.Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            for number in range(COUNT):
                for partition in (0, 1):
                    producer.send(TOPIC, b"%d" % number, partition=partition)
        yield running


@pytest.fixture(params=[AsyncReader, BlockingReader])
def begin(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Begin]:
    """Makes a reader that stands at the beginning of some partitions."""
    readers: list[Reader] = []

    def made(*partitions: TopicPartition, **settings: Any) -> Reader:
        settings |= {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        reader: Reader = request.param(settings)
        readers.append(reader)
        reader.consumer.assign(partitions)
        return reader

    yield made
    for reader in readers:
        reader.close()


def given(reader: Reader, count: int) -> list[ConsumerRecord]:
    records = [reader.next() for _ in range(count)]
    return [record for record in records if record is not None]


def test_every_record_comes_once_and_in_order(begin: Begin) -> None:
    reader = begin(*PARTITIONS)
    records = given(reader, 2 * COUNT)
    for partition in (0, 1):
        assert [record.offset for record in records if record.partition == partition] == list(range(COUNT))
    assert reader.consumer.metrics()["records-consumed-total"] == 2 * COUNT


def test_the_position_moves_with_every_record(begin: Begin) -> None:
    reader = begin(FIRST)
    for number in range(COUNT):
        assert reader.next() is not None
        assert {partition: reached.offset for partition, reached in reader.consumer.positions().items()} == {
            FIRST: number + 1
        }


def test_a_seek_in_the_middle_is_where_it_goes_on(begin: Begin) -> None:
    reader = begin(FIRST)
    assert [record.offset for record in given(reader, 10)] == list(range(10))
    reader.consumer.seek(FIRST, 250)
    assert [record.offset for record in given(reader, 10)] == list(range(250, 260))


def test_nothing_comes_of_a_partition_that_is_paused_in_the_middle(begin: Begin) -> None:
    reader = begin(*PARTITIONS)
    (begun,) = given(reader, 1)
    paused, other = (FIRST, SECOND) if begun.partition == 0 else (SECOND, FIRST)
    reader.consumer.pause(paused)
    assert {record.partition for record in given(reader, COUNT)} == {other.partition}
    reader.consumer.resume(paused)
    assert [(record.partition, record.offset) for record in given(reader, 2)] == [
        (paused.partition, 1),
        (paused.partition, 2),
    ]


def test_polling_in_between_goes_on_where_the_iteration_was(begin: Begin) -> None:
    reader = begin(FIRST)
    given(reader, 10)
    polled = reader.run(reader.consumer.poll(PATIENCE_MS, max_records=100))
    assert [record.offset for record in polled] == list(range(10, 110))
    assert [record.offset for record in given(reader, 2)] == [110, 111]


@pytest.mark.parametrize("max_records", [-1, 0])
def test_a_poll_asks_for_one_record_at_least_and_passes_over_none(begin: Begin, max_records: int) -> None:
    reader = begin(FIRST)
    given(reader, 10)
    with pytest.raises(ValueError, match=f"max_records {max_records}: it is 1 at least"):
        reader.run(reader.consumer.poll(PATIENCE_MS, max_records=max_records))
    with pytest.raises(ValueError, match=f"max_records {max_records}: it is 1 at least"):
        reader.run(reader.consumer.poll_arrow(PATIENCE_MS, max_records=max_records))
    assert [record.offset for record in given(reader, 2)] == [10, 11]


def test_a_record_that_cannot_be_deserialized_is_neither_lost_nor_passed_over(begin: Begin) -> None:
    def refusing(value: bytes) -> int:
        if value == b"99":
            raise ValueError("not this one")
        return int(value)

    reader = begin(FIRST, value_deserializer=refusing)
    assert [record.value for record in given(reader, 99)] == list(range(99))
    for _ in range(2):
        with pytest.raises(DeserializationError, match="offset 99"):
            reader.next()
    reader.consumer.seek(FIRST, 100)
    assert [record.value for record in given(reader, 2)] == [100, 101]


def test_it_is_over_when_the_consumer_is_closed_whatever_is_left(begin: Begin) -> None:
    reader = begin(FIRST)
    assert len(given(reader, 10)) == 10
    reader.run(reader.consumer.close())
    assert reader.next() is None


def test_it_is_over_when_the_consumer_has_ended_without_giving_up_its_partitions(broker: Broker) -> None:
    async def scenario() -> None:
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        consumer.assign([FIRST])
        async with asyncio.timeout(PATIENCE_S):
            assert (await anext(consumer)).offset == 0
        await consumer._session.disconnect()
        assert [record async for record in consumer] == []

    asyncio.run(scenario())


def test_a_thread_that_polls_has_the_next_records_fetched_meanwhile(broker: Broker) -> None:
    """Else whoever works on what was polled would find nothing afterwards, and wait for all of it."""
    settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(9):
            producer.send("ahead", b"%d" % number, partition=0).result(PATIENCE_S)
    with blocking.Consumer(**settings, max_partition_fetch_bytes=1) as consumer:
        consumer.assign([("ahead", 0)])
        # A fetch brings one batch, of one record, and two are held ready; then nothing is fetched until some are taken.
        begun = len(consumer.poll(PATIENCE_MS))
        eventually(2, lambda: held(consumer))
        assert [record.offset for record in consumer.poll(PATIENCE_MS)] == [begun, begun + 1]
        eventually(2, lambda: held(consumer))


def held(consumer: blocking.Consumer) -> int:
    """How many fetches wait to be taken."""
    return len(consumer._session.machine._fetcher._ready)
