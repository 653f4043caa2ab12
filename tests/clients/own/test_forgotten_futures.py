"""A program that forgets the futures of what it sent cannot end as if all of it had been written.

The broker takes batches of 20,000 bytes at most, so a record that is larger fails there, long after ``send``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from semel import Producer, blocking
from semel.errors import AbortableError, ErrorCode
from semel.testing import Broker
from tests.documentation.blocks import blocks_of
from tools.patience import PATIENCE_S

TOO_LARGE = bytes(30_000)
ONE = "a send has failed, and its future was not looked at: 1 records to .* the broker answered MESSAGE_TOO_LARGE"
THREE = "3 sends have failed, and their futures were not looked at; the first: .*MESSAGE_TOO_LARGE"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1, message_max_bytes=20_000) as running:
        yield running


@pytest.fixture
def settings(broker: Broker) -> dict[str, Any]:
    # Each record is a batch of its own.
    return {"bootstrap_servers": broker.bootstrap_servers, "batch_size": 1}


def test_flush_raises_for_what_was_not_looked_at_and_says_how_much_it_is(settings: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with Producer(**settings) as producer:
            for _ in range(3):
                producer.send("large", TOO_LARGE)
                producer.send("large", b"small")
            with pytest.raises(AbortableError, match=THREE) as raised:
                await producer.flush()
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
            producer.send("large", b"small")
            await producer.flush()  # It is told once.

    asyncio.run(scenario())


def test_the_end_of_the_block_raises(settings: dict[str, Any]) -> None:
    async def forgetful() -> None:
        async with Producer(**settings) as producer:
            producer.send("large", TOO_LARGE)

    with pytest.raises(AbortableError, match=ONE):
        asyncio.run(forgetful())


def test_close_raises_and_has_closed(settings: dict[str, Any]) -> None:
    async def scenario() -> None:
        producer = Producer(**settings)
        producer.send("large", TOO_LARGE)
        with pytest.raises(AbortableError, match=ONE):
            await producer.close()
        assert "closed" in repr(producer)
        await producer.close()

    asyncio.run(scenario())


def test_another_exception_is_not_hidden_by_it(settings: dict[str, Any]) -> None:
    async def program() -> None:
        async with Producer(**settings) as producer:
            producer.send("large", TOO_LARGE)
            raise LookupError("of the program")

    with pytest.raises(LookupError, match="of the program"):
        asyncio.run(program())


def test_what_is_given_up_on_purpose_is_not_missed() -> None:
    async def scenario() -> None:
        producer = Producer(bootstrap_servers="localhost:1")
        producer.send("orders", b"v")
        await producer.close(timeout_ms=0)

    asyncio.run(scenario())


def test_what_was_given_up_for_want_of_time_is() -> None:
    async def scenario() -> None:
        producer = Producer(bootstrap_servers="localhost:1")
        producer.send("orders", b"v")
        with pytest.raises(AbortableError, match="closed before this was acknowledged"):
            await producer.close(timeout_ms=1)

    asyncio.run(scenario())


async def awaited(producer: Producer) -> None:
    with contextlib.suppress(AbortableError):
        await producer.send("large", TOO_LARGE)


async def gathered(producer: Producer) -> None:
    await asyncio.gather(*[producer.send("large", TOO_LARGE) for _ in range(3)], return_exceptions=True)


async def gathered_to_the_first(producer: Producer) -> None:
    with contextlib.suppress(AbortableError):
        await asyncio.gather(*[producer.send("large", TOO_LARGE) for _ in range(3)])


async def waited_for(producer: Producer) -> None:
    with contextlib.suppress(AbortableError):
        await asyncio.wait_for(producer.send("large", TOO_LARGE), PATIENCE_S)


async def asked(producer: Producer) -> None:
    future = producer.send("large", TOO_LARGE)
    await asyncio.wait([future])
    assert future.exception() is not None


async def told_by_a_callback(producer: Producer) -> None:
    future = producer.send("large", TOO_LARGE)
    future.add_done_callback(lambda done: done.exception())
    await asyncio.wait([future])


async def a_bulk(producer: Producer) -> None:
    with contextlib.suppress(AbortableError):
        await producer.send_many("large", [b"small", TOO_LARGE])


@pytest.mark.parametrize(
    "look", [awaited, gathered, gathered_to_the_first, waited_for, asked, told_by_a_callback, a_bulk]
)
@pytest.mark.parametrize("meanwhile", [False, True], ids=["before flush", "while it is flushed"])
def test_a_failure_that_was_looked_at_is_not_raised_again(settings: dict[str, Any], look: Any, meanwhile: bool) -> None:
    async def scenario() -> None:
        async with Producer(**settings) as producer:
            looking = asyncio.create_task(look(producer))
            if not meanwhile:
                await looking
            await asyncio.sleep(0)
            await producer.flush()
            await looking

    asyncio.run(scenario())


def test_a_bulk_that_is_forgotten_is_missed(settings: dict[str, Any]) -> None:
    async def scenario() -> None:
        producer = Producer(**settings)
        producer.send_many("large", [b"small", TOO_LARGE, TOO_LARGE])
        with pytest.raises(AbortableError, match=r"a send has failed.* Of 3 records that were sent together 1 were"):
            await producer.close()

    asyncio.run(scenario())


def test_a_hook_that_was_told_of_it_does_not_look_for_the_program(settings: dict[str, Any]) -> None:
    told: list[Exception | None] = []

    async def scenario() -> None:
        producer = Producer(**settings, on_acknowledgement=lambda written, error: told.append(error))
        producer.send("large", TOO_LARGE)
        with pytest.raises(AbortableError, match=ONE):
            await producer.close()

    asyncio.run(scenario())
    assert len(told) == 1


def test_what_a_partitioner_raised_is_missed_as_well(settings: dict[str, Any]) -> None:
    def partitioner(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        raise LookupError("no partition")

    async def scenario() -> None:
        producer = Producer(**settings, partitioner=partitioner)
        producer.send("chosen", b"v")  # The topic is not known yet, so the partitioner is asked later.
        with pytest.raises(AbortableError, match=r"not looked at: LookupError\('no partition'\)") as raised:
            await producer.close()
        assert isinstance(raised.value.__cause__, LookupError)

    asyncio.run(scenario())


def test_an_aborted_transaction_is_not_missed(settings: dict[str, Any]) -> None:
    """Its records are not to be seen; and one with a failure cannot be committed."""

    async def scenario() -> None:
        async with Producer(**settings, transactional_id="forgetful") as producer:
            producer.begin()
            producer.send("large", TOO_LARGE)
            with pytest.raises(AbortableError):
                await producer.commit()
            await producer.abort()
            producer.begin()
            producer.send("large", b"small")

    asyncio.run(scenario())


def test_many_that_are_forgotten_are_counted_and_not_complained_about_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        producer = Producer(bootstrap_servers="localhost:1", max_block_ms=1)
        for _ in range(3_000):
            producer.send("orders", b"v")
        with pytest.raises(Exception, match="3000 sends have failed"):
            await producer.flush()
        await producer.close()

    gc.collect()  # What earlier tests have forgotten is complained about now, and is not this one's.
    caplog.clear()
    asyncio.run(scenario())
    gc.collect()
    assert "never retrieved" not in caplog.text


# With threads


def test_a_blocking_producer_misses_it_too(settings: dict[str, Any]) -> None:
    producer = blocking.Producer(**settings)
    for _ in range(3):
        producer.send("large", TOO_LARGE)
    with pytest.raises(AbortableError, match=THREE):
        producer.flush()
    producer.send("large", TOO_LARGE)
    with pytest.raises(AbortableError, match=ONE):
        producer.close()
    producer.close()


def forgetful_block(settings: dict[str, Any], error: Exception | None = None) -> None:
    with blocking.Producer(**settings) as producer:
        producer.send("large", TOO_LARGE)
        if error is not None:
            raise error


def test_a_blocking_block_raises_but_hides_no_other_exception(settings: dict[str, Any]) -> None:
    with pytest.raises(AbortableError, match=ONE):
        forgetful_block(settings)
    with pytest.raises(LookupError):
        forgetful_block(settings, LookupError())


def test_results_that_were_asked_for_are_not_raised_again(settings: dict[str, Any]) -> None:
    with blocking.Producer(**settings) as producer:
        first, second, third = (producer.send("large", TOO_LARGE) for _ in range(3))
        with pytest.raises(AbortableError):
            first.result(PATIENCE_S)
        assert second.exception(PATIENCE_S) is not None
        third.add_done_callback(lambda done: done.exception())
        producer.flush()


def test_a_result_that_was_not_waited_for_long_enough_was_not_seen(settings: dict[str, Any]) -> None:
    with blocking.Producer(**settings, linger_ms=60_000) as producer:
        future = producer.send("large", TOO_LARGE, partition=0)
        with pytest.raises(TimeoutError):
            future.result(timeout=0)
        with pytest.raises(AbortableError, match=ONE):
            producer.flush()


# The program in docs/migration.md


def test_the_program_that_moves_a_topic_does_not_end_well_if_records_are_refused(broker: Broker) -> None:
    """It lost them, set the group behind them, and ended with 0."""
    (program,) = [block.text for block in blocks_of("docs/migration.md") if block.language == "python"]
    definitions = program[: program.index("\n\nprint(")]
    with Broker(num_partitions=1) as old:
        with blocking.Producer(bootstrap_servers=old.bootstrap_servers) as producer:
            for value in (b"a", TOO_LARGE, b"b"):
                producer.send("moved", value).result(PATIENCE_S)
        with blocking.Admin(bootstrap_servers=old.bootstrap_servers) as admin:
            admin.groups.alter_offsets("billing", {("moved", 0): 3}).all()
        names: dict[str, Any] = {}
        exec(definitions, names)
        names.update(OLD=old.bootstrap_servers, NEW=broker.bootstrap_servers)
        with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
            names["move"]("moved", "billing")
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.groups.list_offsets("billing") == {}, "the group is not moved behind what is not there"
