"""The asyncio and the blocking client against Semel's own broker: real sockets, real bytes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from semel import Consumer, ConsumerRecord, Producer, RecordMetadata, blocking
from semel.errors import AbortableError, ProducerFenced, RetriableError, StateError, TimedOut
from semel.settings import SettingError
from semel.testing import Broker
from tools.patience import PATIENCE_MS, PATIENCE_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=3, message_max_bytes=20_000) as running:
        yield running


async def read(broker: Broker, topic: str, count: int, **settings: Any) -> list[ConsumerRecord]:
    """The first records of a topic, from all partitions."""
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest", **settings}
    async with Consumer(**settings) as consumer, asyncio.timeout(PATIENCE_S):
        consumer.assign([(topic, index) for index in range(await consumer.partitions_for(topic))])
        records: list[ConsumerRecord] = []
        while len(records) < count:
            records += await consumer.poll(1_000)
    return records


def test_a_record_comes_back_as_it_was_sent(broker: Broker) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            written = await producer.send(
                "as-sent", b"value", b"key", partition=1, headers={"a": b"1", "b": None}, timestamp=1_700_000_000_000
            )
        assert written == RecordMetadata("as-sent", 1, 0, 1_700_000_000_000)
        (record,) = await read(broker, "as-sent", 1)
        assert record == ConsumerRecord(
            "as-sent", 1, 0, 1_700_000_000_000, b"key", b"value", (("a", b"1"), ("b", None))
        )

    asyncio.run(scenario())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(broker: Broker, codec: str) -> None:
    async def scenario() -> None:
        values = [b"%d " % number * 30 for number in range(200)]
        async with Producer(bootstrap_servers=broker.bootstrap_servers, compression_type=codec) as producer:
            for value in values:
                producer.send(f"codec-{codec}", value, partition=0)
        assert [record.value for record in await read(broker, f"codec-{codec}", 200)] == values

    asyncio.run(scenario())


def test_null_and_empty_are_different_things(broker: Broker) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for key, value in ((None, None), (b"", b""), (None, b""), (b"", None)):
                await producer.send("null", value, key, partition=0)
        found = [(record.key, record.value) for record in await read(broker, "null", 4)]
        assert found == [(None, None), (b"", b""), (None, b""), (b"", None)]

    asyncio.run(scenario())


def test_many_records_are_sent_together_and_arrive_in_order(broker: Broker) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            futures = [producer.send("many", b"%d" % number, partition=number % 3) for number in range(5_000)]
            written = await asyncio.gather(*futures)
        assert [(record.partition, record.offset) for record in written] == [(n % 3, n // 3) for n in range(5_000)]
        records = await read(broker, "many", 5_000)
        for partition in range(3):
            values = [int(record.value or b"") for record in records if record.partition == partition]
            assert values == list(range(partition, 5_000, 3))

    asyncio.run(scenario())


def test_after_flush_every_future_is_done(broker: Broker) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(50):
                futures = [producer.send("flushed", b"a") for _ in range(10)]
                await producer.flush()
                assert all(future.done() for future in futures)

    asyncio.run(scenario())


def test_a_batch_larger_than_the_broker_takes_is_split_until_it_fits(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "batch_size": 100_000, "linger_ms": 50}
        async with Producer(**settings) as producer:
            futures = [producer.send("split", b"%d" % n + bytes(3_000), partition=0) for n in range(30)]
            written = await asyncio.gather(*futures)
        assert [record.offset for record in written] == list(range(30))

    asyncio.run(scenario())


def test_a_killed_broker_that_comes_back_loses_and_doubles_nothing() -> None:
    """Scenario 1 with a real broker: answers are lost, batches are repeated."""

    async def scenario() -> None:
        async with Broker(num_partitions=1) as broker:
            settings = {"bootstrap_servers": broker.bootstrap_servers, "reconnect_backoff_max_ms": 100}
            async with Producer(**settings, batch_size=400, retry_backoff_ms=20) as producer:
                futures = []
                for number in range(2_000):
                    futures.append(producer.send("killed", b"%d" % number))
                    if number % 20 == 0:
                        await asyncio.sleep(0)
                    if number in (500, 1_000, 1_500):
                        await asyncio.to_thread(broker.restart, kill=True)
                written = await asyncio.gather(*futures)
            assert [record.offset for record in written] == list(range(2_000))
            records = await read(broker, "killed", 2_000)
            assert [record.value for record in records] == [b"%d" % number for number in range(2_000)]

    asyncio.run(scenario())


def test_iteration_moves_the_position_record_by_record(broker: Broker) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("iterated", b"%d" % number, partition=0)
        settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        async with Consumer(**settings) as consumer:
            consumer.assign([("iterated", 0)])
            async for record in consumer:
                assert await consumer.position(("iterated", 0)) == record.offset + 1
                if record.offset == 9:
                    break
            assert await consumer.poll(timeout_ms=50) == []
            assert await consumer.beginning_offsets([("iterated", 0)]) == {("iterated", 0): 0}
            assert await consumer.end_offsets([("iterated", 0)]) == {("iterated", 0): 10}
            consumer.seek(("iterated", 0), 7)
            assert [record.offset for record in await consumer.poll(PATIENCE_MS)] == [7, 8, 9]

    asyncio.run(scenario())


def test_iteration_ends_when_the_consumer_is_closed(broker: Broker) -> None:
    async def scenario() -> None:
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers)
        with pytest.raises(StateError, match="no partition is assigned"):
            await consumer.poll(10)
        consumer.assign([("closed-early", 0)])

        async def iterate() -> list[ConsumerRecord]:
            return [record async for record in consumer]

        iterating = asyncio.ensure_future(iterate())
        await asyncio.sleep(0)
        await consumer.close()
        assert await iterating == []

    asyncio.run(scenario())


def test_transactions_commit_abort_and_fence(broker: Broker) -> None:
    """Scenarios 16, 39 and 41 on our own broker."""

    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "tx"}
        async with Producer(**settings) as producer:
            async with producer.transaction():
                producer.send("tx", b"committed", partition=0)
                await producer.send_offsets({("tx", 0): 1}, "group")

            async def fail() -> None:
                async with producer.transaction():
                    await producer.send("tx", b"aborted", partition=0)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            async with producer.transaction():
                producer.send("tx", b"again", partition=0)
            found = await read(broker, "tx", 2, isolation_level="read_committed")
            assert [record.value for record in found] == [b"committed", b"again"]
            found = await read(broker, "tx", 3)
            assert [record.value for record in found] == [b"committed", b"aborted", b"again"]
            producer.begin()
            await producer.send("tx", b"zombie", partition=0)
            async with Producer(**settings) as heir:
                with pytest.raises((ProducerFenced, AbortableError)):
                    await producer.commit()
                async with heir.transaction():
                    heir.send("tx", b"heir", partition=0)
        found = await read(broker, "tx", 3, isolation_level="read_committed")
        assert [record.value for record in found] == [b"committed", b"again", b"heir"]

    asyncio.run(scenario())


def test_an_attached_producer_on_our_own_broker(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "attached"}
        async with Producer(**settings) as owner:
            worker = Producer(**settings)
            for number in range(3):
                owner.begin()
                worker.attach(*owner.identity)
                worker.send("attached", b"%d" % number, partition=0)
                await worker.flush()
                await owner.commit()
            worker.send("attached", b"late", partition=0)
            with pytest.raises(AbortableError, match="INVALID_PRODUCER_EPOCH"):
                await worker.flush()
            await worker.close()
        found = await read(broker, "attached", 3, isolation_level="read_committed")
        assert [record.value for record in found] == [b"0", b"1", b"2"]

    asyncio.run(scenario())


def test_close_aborts_what_was_not_committed(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "left-open"}
        async with Producer(**settings) as producer:
            producer.begin()
            await producer.send("left-open", b"never", partition=0)
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
            assert await consumer.end_offsets([("left-open", 0)]) == {("left-open", 0): 2}
        assert await read(broker, "left-open", 0, isolation_level="read_committed") == []

    asyncio.run(scenario())


def test_blocking_transactions(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="blocking-tx") as producer:
        with producer.transaction():
            producer.send("blocking-tx", b"committed", partition=0)

        def fail() -> None:
            with producer.transaction():
                producer.send("blocking-tx", b"aborted", partition=0)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert producer.identity.transaction_version == 2
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    with blocking.Consumer(**settings, isolation_level="read_committed") as consumer:
        consumer.assign([("blocking-tx", 0)])
        assert [record.value for record in consumer.poll(PATIENCE_MS)] == [b"committed"]


def test_nobody_to_connect_to_is_told_after_max_block_ms() -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": "127.0.0.1:1", "max_block_ms": 100}
        async with Producer(**settings) as producer:
            with pytest.raises(TimedOut, match="its topic to be known"):
                await producer.send("nowhere", b"a")
            with pytest.raises(TimedOut, match=r"partitions_for.*max\.block\.ms .100 ms"):
                await producer.partitions_for("nowhere")
        producer = Producer(**settings, transactional_id="copy-1")
        with pytest.raises(TimedOut, match=r"init did not finish.*the coordinator of transaction 'copy-1'"):
            await producer.init()
        await producer.close(timeout_ms=0)

    asyncio.run(scenario())


def test_back_pressure_lets_a_fast_sender_wait(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "buffer_memory": 20_000}
        async with Producer(**settings) as producer:
            futures = []
            for number in range(1_000):
                await producer.drain()
                futures.append(producer.send("pressed", b"%d" % number + bytes(100), partition=0))
            assert [record.offset for record in await asyncio.gather(*futures)] == list(range(1_000))

            def send_without_pause() -> None:
                for _ in range(1_000):
                    producer.send("pressed", bytes(100))

            with pytest.raises(RetriableError, match="drain"):
                send_without_pause()

    asyncio.run(scenario())


@pytest.mark.parametrize("wrong", ["text", 7, 1.5, ["list"]])
def test_what_is_not_bytes_is_refused(broker: Broker, wrong: Any) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.partitions_for("typed")
            for arguments in (
                {"value": wrong},
                {"value": b"", "key": wrong},
                {"value": b"", "headers": [("a", wrong)]},
            ):
                with pytest.raises(TypeError, match="bytes or None"):
                    producer.send("typed", **arguments)

    asyncio.run(scenario())


def test_without_transactions_every_call_for_them_says_so(broker: Broker) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for call in (producer.init, producer.commit, producer.abort):
                with pytest.raises(StateError, match=r"this producer has no transactional\.id"):
                    await call()
            with pytest.raises(StateError, match="begin: this producer"):
                producer.begin()
        with pytest.raises(StateError, match="closed"):
            producer.send("closed", b"a")
        with pytest.raises(StateError, match="closed"):
            await producer.flush()
        await producer.close()

    asyncio.run(scenario())


def test_close_sends_what_lingers(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "linger_ms": 50_000}
        async with Producer(**settings) as producer:
            future = producer.send("closing", b"a", partition=0)
        assert (await future).offset == 0

    asyncio.run(scenario())


def test_close_gives_up_after_its_timeout() -> None:
    async def scenario() -> None:
        producer = Producer(bootstrap_servers="127.0.0.1:1")
        future = producer.send("nowhere", b"a")
        with pytest.raises(AbortableError, match="its future was not looked at: the producer was closed"):
            await producer.close(timeout_ms=10)
        with pytest.raises(AbortableError, match="closed"):
            await future

    asyncio.run(scenario())


def test_a_failed_batch_is_logged_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=1) as producer:
            producer.send("too-large", bytes(30_000), partition=0)
            with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
                await producer.flush()

    caplog.set_level(logging.WARNING)
    asyncio.run(scenario())
    said = [record.getMessage() for record in caplog.records if record.name.startswith("semel.client")]
    assert [text[:17] for text in said] == ["MESSAGE_TOO_LARGE"]


def test_a_wrong_setting_is_refused_when_the_object_is_made() -> None:
    for kind in (Producer, blocking.Producer, Consumer, blocking.Consumer):
        with pytest.raises(SettingError, match="did you mean"):
            kind(bootstrap_servers="one:9092", client_idd="x")  # type: ignore[call-arg]


# Blocking


def test_the_blocking_client_writes_and_reads(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        assert producer.send("blocking", b"a", partition=0).result(PATIENCE_S) == RecordMetadata(
            "blocking", 0, 0, _any()
        )
        futures = [producer.send("blocking", b"%d" % number, partition=0) for number in range(1_000)]
        producer.flush()
        assert all(future.done() for future in futures)
        assert producer.partitions_for("blocking") == 3
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    with blocking.Consumer(**settings) as consumer:
        consumer.assign([("blocking", 0)])
        values = [record.value for record in itertools.islice(consumer, 1_001)]
        assert values == [b"a", *(b"%d" % number for number in range(1_000))]
        assert consumer.position(("blocking", 0)) == 1_001
        consumer.seek_to_beginning()
        assert consumer.poll(PATIENCE_MS, max_records=1)[0].offset == 0


def test_whoever_leaves_does_not_wait_for_what_has_just_happened(broker: Broker) -> None:
    """The group was left between the look and the wait, on the other thread: there is nothing that could end it."""

    async def scenario() -> None:
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="just-left") as consumer:
            left = consumer._session.group_session.begin_leaving("test")
            assert left.settled
            in_a_moment_ms = asyncio.get_running_loop().time() * 1000 + 50
            assert not await consumer._session.group_session.wait(in_a_moment_ms)
            assert await consumer._session.group_session.wait(in_a_moment_ms + 50, left)

    asyncio.run(scenario())


def test_threads_share_a_blocking_producer(broker: Broker) -> None:
    futures: list[list[Future[RecordMetadata]]] = [[] for _ in range(4)]
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, buffer_memory=30_000) as producer:

        def work(index: int) -> None:
            for number in range(500):
                futures[index].append(producer.send("threads", b"%d-%d" % (index, number), partition=0))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    offsets = [[future.result().offset for future in own] for own in futures]
    assert all(own == sorted(own) for own in offsets), "each thread's records are in its order"
    assert sorted(offset for own in offsets for offset in own) == list(range(2_000))


def test_use_after_fork_raises_and_says_what_to_do(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for call in (lambda: producer.send("forked", b"a"), producer.flush, producer.close):
                try:
                    call()
                    said.append("nothing")
                except StateError as error:
                    said.append(str(error))
            os.write(writer, "|".join(said).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        said = os.read(reader, 10_000).decode().split("|")
        os.close(reader)
        assert len(said) == 3
        assert all("forked" in text and "make one in every process" in text for text in said)
        assert producer.send("forked", b"a").result(PATIENCE_S).offset == 0


def test_a_callback_that_waits_for_its_own_producer_is_told(broker: Broker) -> None:
    told: Future[BaseException | None] = Future()
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:

        def callback(_: Future[RecordMetadata]) -> None:
            try:
                producer.flush()
            except StateError as error:
                told.set_result(error)

        producer.send("callback", b"a").add_done_callback(callback)
        assert "cannot wait" in str(told.result(PATIENCE_S))


def test_a_callback_may_send(broker: Broker) -> None:
    second: Future[RecordMetadata] = Future()
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:

        def callback(_: Future[RecordMetadata]) -> None:
            producer.send("chained", b"b", partition=0).add_done_callback(lambda f: second.set_result(f.result()))

        producer.send("chained", b"a", partition=0).add_done_callback(callback)
        assert second.result(PATIENCE_S).offset == 1


def test_a_closed_blocking_client_says_so(broker: Broker) -> None:
    producer = blocking.Producer(bootstrap_servers=broker.bootstrap_servers)
    producer.close()
    producer.close()
    for call in (lambda: producer.send("closed", b"a"), producer.flush):
        with pytest.raises(StateError, match="the producer is closed"):
            call()


class _any:  # noqa: N801 (it reads as a word)
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]
