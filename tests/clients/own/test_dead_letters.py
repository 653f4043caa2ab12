"""A record whose processing raises is a dead letter, in the same transaction, and none of its outputs is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from semel import Consumer as AsyncConsumer
from semel import ConsumerRecord, blocking
from semel import Producer as AsyncProducer
from semel.client.dead_letters import (
    ATTEMPTS_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TOPIC_HEADER,
    Output,
)
from semel.errors import AbortableError, ErrorCode, StateError
from semel.testing import Broker, exactly_once
from semel.testing.exactly_once import Phase, killed
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.clients.own import planted_applications as planted
from tools.patience import PATIENCE_MS

ORDERS = TopicPartition("orders", 0)
READ = {"enable_auto_commit": False, "isolation_level": "read_committed", "auto_offset_reset": "earliest"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1, group_initial_rebalance_delay_ms=0) as running:
        with blocking.Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            for topic in ("orders", "audit", "doubled", "orders.dlq"):
                admin.topics.create(topic)
        yield running


def give(broker: Broker, *values: bytes | None, **record: Any) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value, **record)


def producer_of(broker: Broker, **settings: Any) -> blocking.Producer:
    return blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="copy", **settings)


def consumer_of(broker: Broker, **settings: Any) -> blocking.Consumer[Any, Any]:
    consumer = blocking.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="copy", **{**READ, **settings})
    consumer.assign([ORDERS])
    return consumer


def double(record: ConsumerRecord, output: Output) -> None:
    """Raises for what is no number, after it has sent something already."""
    output.send("audit", b"seen " + (record.value or b""))
    output.send("doubled", str(2 * int(record.value or b"")).encode())


def values_in(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.committed(topic)]


def polled(consumer: blocking.Consumer[Any, Any], count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += consumer.poll(PATIENCE_MS)
    return records


def run_blocking(broker: Broker, process: Callable[[ConsumerRecord, Output], None], count: int, on: Any) -> None:
    with producer_of(broker) as producer, consumer_of(broker) as consumer:
        records = polled(consumer, count)
        with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
            for record in records:
                with producer.processing(record, on=on) as output:
                    process(record, output)


async def run_asyncio(broker: Broker, process: Callable[[ConsumerRecord, Output], None], count: int, on: Any) -> None:
    servers = broker.bootstrap_servers
    async with (
        AsyncProducer(bootstrap_servers=servers, transactional_id="copy") as producer,
        AsyncConsumer(bootstrap_servers=servers, group_id="copy", **READ) as consumer,
    ):
        consumer.assign([ORDERS])
        records: list[ConsumerRecord] = []
        while len(records) < count:
            records += await consumer.poll(PATIENCE_MS)
        async with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
            for record in records:
                with producer.processing(record, on=on) as output:
                    process(record, output)


def run(kind: str, broker: Broker, count: int, on: Any = Exception) -> None:
    if kind == "blocking":
        run_blocking(broker, double, count, on)
    else:
        asyncio.run(run_asyncio(broker, double, count, on))


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_record_that_raises_is_a_dead_letter_and_sends_nothing_else(broker: Broker, kind: str) -> None:
    give(broker, b"1", b"two", b"3", key=b"ann", headers={"from": b"shop"}, timestamp=1_700_000_000_000)
    run(kind, broker, 3)
    assert values_in(broker, "doubled") == [b"2", b"6"]
    assert values_in(broker, "audit") == [b"seen 1", b"seen 3"]
    (letter,) = broker.committed("orders.dlq")
    assert (letter.key, letter.value, letter.timestamp) == (b"ann", b"two", 1_700_000_000_000)
    assert dict(letter.headers) == {
        "from": b"shop",
        REASON_HEADER: b"ValueError: invalid literal for int() with base 10: b'two'",
        TOPIC_HEADER: b"orders",
        PARTITION_HEADER: b"0",
        OFFSET_HEADER: b"1",
        ATTEMPTS_HEADER: b"1",
    }
    with consumer_of(broker) as consumer:
        committed = consumer.committed([ORDERS])[ORDERS]
    assert committed is not None
    assert committed.offset == 3


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_what_is_not_a_mistake_of_the_record_aborts_and_takes_the_dead_letters_with_it(
    broker: Broker, kind: str
) -> None:
    give(broker, b"1", b"two", None)  # int(b"") of null would raise a ValueError as well: `on` names another.
    with pytest.raises(ValueError, match="invalid literal"):
        run(kind, broker, 3, on=KeyError)
    assert [values_in(broker, topic) for topic in ("audit", "doubled", "orders.dlq")] == [[], [], []]
    run(kind, broker, 3)
    assert values_in(broker, "doubled") == [b"2"]
    assert values_in(broker, "orders.dlq") == [b"two", None]


def test_an_abort_in_the_middle_leaves_no_dead_letter_and_the_records_are_read_again(broker: Broker) -> None:
    give(broker, b"one", b"2")
    with producer_of(broker) as producer, consumer_of(broker) as consumer:
        for attempt in range(2):
            records = polled(consumer, 2)
            try:
                with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
                    for record in records:
                        with producer.processing(record) as output:
                            double(record, output)
                    producer.flush()  # So that the dead letter is in the log when it is aborted.
                    if attempt == 0:
                        raise ConnectionError("the database is away")
            except ConnectionError:
                assert values_in(broker, "orders.dlq") == []
    assert values_in(broker, "orders.dlq") == [b"one"]
    assert values_in(broker, "doubled") == [b"4"]


def test_a_clients_own_error_is_not_the_records(broker: Broker) -> None:
    give(broker, b"1")
    with producer_of(broker) as producer, consumer_of(broker) as consumer:
        (record,) = polled(consumer, 1)
        with (
            pytest.raises(AbortableError),
            producer.transaction(consumer=consumer, dead_letter="orders.dlq"),
            producer.processing(record),
        ):
            raise AbortableError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "of another cluster")
    assert values_in(broker, "orders.dlq") == []


def test_an_output_that_cannot_be_sent_makes_a_dead_letter(broker: Broker) -> None:
    give(broker, b"a lot", b"no bytes", b"1")
    outputs: dict[bytes | None, Any] = {b"a lot": bytes(3_000), b"no bytes": 7, b"1": b"fine"}
    with producer_of(broker, max_request_size=2_000) as producer, consumer_of(broker) as consumer:
        records = polled(consumer, 3)
        with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
            for record in records:
                with producer.processing(record) as output:
                    output.send("doubled", b"first")
                    output.send("doubled", outputs[record.value])
    assert values_in(broker, "doubled") == [b"first", b"fine"]
    reasons = [dict(letter.headers)[REASON_HEADER] for letter in broker.committed("orders.dlq")]
    assert [reason[: reason.index(b":")] for reason in reasons if reason] == [b"AbortableError", b"TypeError"]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"value": bytes(3_000), "key": b"k"}, (b"k", None)),
        ({"value": b"v", "key": bytes(3_000), "headers": {"from": b"shop"}}, (None, None)),
    ],
)
def test_a_dead_letter_leaves_out_what_makes_it_too_large(
    broker: Broker, record: dict[str, Any], expected: tuple[bytes | None, bytes | None]
) -> None:
    give(broker, record.pop("value"), **record)
    with producer_of(broker, max_request_size=2_000) as producer, consumer_of(broker) as consumer:
        (read,) = polled(consumer, 1)
        with producer.transaction(consumer=consumer, dead_letter="orders.dlq"), producer.processing(read):
            raise ValueError("x" * 10_000)
    (letter,) = broker.committed("orders.dlq")
    assert (letter.key, letter.value) == expected
    assert dict(letter.headers)[OFFSET_HEADER] == b"0"
    assert "from" not in dict(letter.headers)


def test_serializers_and_hooks_are_for_outputs_and_not_for_dead_letters(broker: Broker) -> None:
    give(broker, b"1", b"two")
    with (
        producer_of(broker, value_serializer=lambda value: f"<{value}>".encode()) as producer,
        consumer_of(broker) as consumer,
    ):
        records = polled(consumer, 2)
        with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
            for record in records:
                with producer.processing(record) as output:
                    output.send("doubled", int(record.value or b""))
    assert values_in(broker, "doubled") == [b"<1>"]
    assert values_in(broker, "orders.dlq") == [b"two"]


def test_what_does_not_fit_is_refused_before_the_transaction_begins(broker: Broker) -> None:
    give(broker, b"1")
    with producer_of(broker) as producer, consumer_of(broker, value_deserializer=int) as consumer:
        (record,) = polled(consumer, 1)
        for dead_letter, error, told in (
            ("orders.dlq", StateError, "has a deserializer"),
            (7, TypeError, "topic is 7"),
        ):
            with pytest.raises(error, match=told), producer.transaction(consumer=consumer, dead_letter=dead_letter):  # type: ignore[arg-type]
                raise AssertionError("it was refused")
        with pytest.raises(StateError, match="no transaction with a dead-letter topic"):
            producer.processing(record)
        with producer.transaction(dead_letter="orders.dlq"):
            pass
        with producer.transaction(), pytest.raises(StateError, match="no transaction with a dead-letter topic"):
            producer.processing(record)


class Flaky:
    """Doubles numbers at the third attempt, and what is no number never."""

    def __init__(self) -> None:
        self.attempts: list[tuple[bytes | None, int]] = []

    def __call__(self, record: ConsumerRecord, output: Output) -> None:
        self.attempts.append((record.value, output.attempt))
        double(record, output)
        if output.attempt < 3:
            raise ConnectionError(f"attempt {output.attempt}")


def try_blocking(broker: Broker, process: Callable[[ConsumerRecord, Output], None], count: int, tries: int) -> None:
    with producer_of(broker) as producer, consumer_of(broker) as consumer:
        records = polled(consumer, count)
        with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
            for record in records:
                for attempt in producer.attempts(record, tries, on=(ValueError, ConnectionError)):
                    with attempt as output:
                        process(record, output)


async def try_asyncio(
    broker: Broker, process: Callable[[ConsumerRecord, Output], None], count: int, tries: int
) -> None:
    servers = broker.bootstrap_servers
    async with (
        AsyncProducer(bootstrap_servers=servers, transactional_id="copy") as producer,
        AsyncConsumer(bootstrap_servers=servers, group_id="copy", **READ) as consumer,
    ):
        consumer.assign([ORDERS])
        records: list[ConsumerRecord] = []
        while len(records) < count:
            records += await consumer.poll(PATIENCE_MS)
        async with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
            for record in records:
                for attempt in producer.attempts(record, tries, on=(ValueError, ConnectionError)):
                    with attempt as output:
                        process(record, output)


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
@pytest.mark.parametrize("tries", [2, 3])
def test_a_record_is_tried_again_before_it_is_a_dead_letter_and_only_the_last_attempt_sends(
    broker: Broker, kind: str, tries: int
) -> None:
    give(broker, b"1", b"two")
    flaky = Flaky()
    if kind == "blocking":
        try_blocking(broker, flaky, 2, tries)
    else:
        asyncio.run(try_asyncio(broker, flaky, 2, tries))
    assert flaky.attempts == [(value, number) for value in (b"1", b"two") for number in range(1, tries + 1)]
    letters = [(letter.value, dict(letter.headers)) for letter in broker.committed("orders.dlq")]
    assert {headers[ATTEMPTS_HEADER] for _, headers in letters} == {b"%d" % tries}
    if tries == 3:
        assert values_in(broker, "doubled") == [b"2"]
        assert values_in(broker, "audit") == [b"seen 1"]
        assert [value for value, _ in letters] == [b"two"]
    else:
        assert values_in(broker, "doubled") == values_in(broker, "audit") == []
        assert [(value, (headers[REASON_HEADER] or b"")[:15]) for value, headers in letters] == [
            (b"1", b"ConnectionError"),
            (b"two", b"ValueError: inv"),
        ]


def test_an_error_that_is_not_the_records_ends_the_attempts_and_aborts(broker: Broker) -> None:
    give(broker, b"1")
    numbers = []

    def process(record: ConsumerRecord, output: Output) -> None:
        numbers.append(output.attempt)
        output.send("doubled", b"2")
        raise ConnectionError("x") if output.attempt == 1 else KeyError("disk")

    with pytest.raises(KeyError, match="disk"):
        try_blocking(broker, process, 1, 3)
    assert numbers == [1, 2]
    assert values_in(broker, "doubled") == values_in(broker, "orders.dlq") == []


def test_attempts_that_mean_nothing_are_refused(broker: Broker) -> None:
    give(broker, b"1")
    with producer_of(broker) as producer, consumer_of(broker) as consumer:
        (record,) = polled(consumer, 1)
        with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
            for count in (0, -1, 2.5, True):
                with pytest.raises(ValueError, match="at least 1"):
                    producer.attempts(record, count)  # type: ignore[arg-type]
            attempts = producer.attempts(record, 3)
            next(attempts)
            with pytest.raises(StateError, match="an attempt was passed over"):
                next(attempts)
        with pytest.raises(StateError, match="no transaction with a dead-letter topic"):
            next(producer.attempts(record, 3))


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_dead_letter_topic_that_is_not_there_is_said_before_the_first_record(kind: str) -> None:
    def use_blocking(servers: str) -> None:
        with (
            blocking.Producer(bootstrap_servers=servers, transactional_id="copy") as producer,
            producer.transaction(dead_letter="orders.dlq"),
        ):
            producer.send("orders.dlq", b"1")

    async def use_asyncio(servers: str) -> None:
        async with (
            AsyncProducer(bootstrap_servers=servers, transactional_id="copy") as producer,
            producer.transaction(dead_letter="orders.dlq"),
        ):
            producer.send("orders.dlq", b"1")

    def use(servers: str) -> None:
        use_blocking(servers) if kind == "blocking" else asyncio.run(use_asyncio(servers))

    with Broker(auto_create_topics_enable=False) as broker:
        with pytest.raises(AbortableError, match=r"dead_letter='orders\.dlq': there is no such topic") as told:
            use(broker.bootstrap_servers)
        assert told.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.topics.create("orders.dlq")
        use(broker.bootstrap_servers)
        assert values_in(broker, "orders.dlq") == [b"1"]


@pytest.mark.parametrize(
    "scenario",
    [killed(ApiKey.END_TXN, Phase.BEFORE), killed(ApiKey.END_TXN, Phase.CARRIED_OUT)],
    ids=lambda scenario: str(scenario.name),
)
def test_dead_letters_are_exactly_once_when_the_program_is_killed_at_its_commit(
    scenario: exactly_once.Scenario,
) -> None:
    results = exactly_once.prove(
        planted.keeps_dead_letters,
        given={"orders": [*planted.GIVEN["orders"], b"nine"]},
        expect={**planted.EXPECT, "orders.dlq": [b"nine"]},
        scenarios=[scenario],
    )
    assert any(result.struck for result in results)
