"""Many records at once, out and in, on Semel's own broker: asyncio, threads, transactions, groups."""

from __future__ import annotations

import builtins
import random
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from semel import Consumer, Producer, blocking
from semel.client.values import BulkMetadata, WrittenRange
from semel.errors import AbortableError, TimedOut
from semel.testing import Broker
from tests.clients.waiting import run
from tools.patience import PATIENCE_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=3, message_max_bytes=20_000, group_initial_rebalance_delay_ms=0) as running:
        yield running


async def table_of(broker: Broker, topic: str, count: int, **settings: Any) -> pa.Table:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest", **settings}
    async with Consumer(**settings) as consumer:
        consumer.assign([(topic, index) for index in range(await consumer.partitions_for(topic))])
        tables = []
        while sum(map(len, tables)) < count:
            tables.append(await consumer.poll_arrow(1_000))
    return pa.concat_tables(tables)


def test_a_table_comes_back_as_it_was_sent(broker: Broker) -> None:
    table = pa.table(
        {
            "key": pa.array(["a", None, ""], pa.string()),
            "value": pa.array([b"1", b"", None], pa.large_binary()),
            "headers": pa.array([[("h", b"x"), ("n", None)], None, []], pa.map_(pa.string(), pa.binary())),
            "partition": pa.array([2, 2, 2], pa.int64()),
            "timestamp": pa.array([1_700_000_000_000_000, 1_700_000_000_001_000, 0], pa.timestamp("us")),
        }
    )

    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            written = await producer.send_arrow("table", table)
        assert written == BulkMetadata("table", 3, {2: WrittenRange(0, 2, 3)})
        found = (await table_of(broker, "table", 3)).to_pydict()
        assert found["key"] == [b"a", None, b""]
        assert found["value"] == [b"1", b"", None]
        assert found["headers"] == [[{"key": "h", "value": b"x"}, {"key": "n", "value": None}], [], []]
        assert [round(moment.timestamp() * 1000) for moment in found["timestamp"]] == [
            1_700_000_000_000,
            1_700_000_000_001,
            0,
        ]
        assert (found["topic"], found["partition"], found["offset"]) == (["table"] * 3, [2] * 3, [0, 1, 2])

    run(scenario())


def test_more_than_the_buffer_holds_is_sent_piece_by_piece(broker: Broker) -> None:
    values = [b"%06d" % number + bytes(94) for number in range(20_000)]

    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "buffer_memory": 100_000}
        async with Producer(**settings) as producer:
            written = await producer.send_many("pieces", values, partition=1)
            assert written.partitions == {1: WrittenRange(0, 19_999, 20_000)}
            assert producer.metrics()["buffer-available-bytes"] == 100_000
        found = await table_of(broker, "pieces", len(values))
        assert found.column("value").to_pylist() == values

    run(scenario())


def test_a_batch_larger_than_the_broker_takes_is_split_and_told_of_once(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "batch_size": 100_000}
        async with Producer(**settings) as producer:
            written = await producer.send_many("split-bulk", [bytes(3_000)] * 60, partition=0)
            assert written.partitions == {0: WrittenRange(0, 59, 60)}

    run(scenario())


def test_one_record_that_is_too_large_keeps_all_from_being_sent(broker: Broker) -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            with pytest.raises(AbortableError, match="row 1 takes 2000026 bytes"):
                await producer.send_many("large", [b"a", bytes(2_000_000)])
            assert await producer.send_many("large", []) == BulkMetadata("large", 0, {})

    run(scenario())


def test_a_record_that_the_broker_refuses_fails_the_bulk_and_says_how_many_were_written(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers}
        async with Producer(**settings) as producer:
            values = [bytes(16_000), bytes(30_000), bytes(16_000)]
            with pytest.raises(AbortableError, match="Of 3 records that were sent together 2 were written"):
                await producer.send_many("refused", values, partition=0)

    run(scenario())


def test_a_bulk_for_a_topic_that_nobody_knows_fails_in_time() -> None:
    with Broker(auto_create_topics_enable=False) as broker:

        async def scenario() -> None:
            settings = {"bootstrap_servers": broker.bootstrap_servers, "max_block_ms": 300}
            async with Producer(**settings) as producer:
                with pytest.raises(TimedOut, match="the last 2 of 2 records for nowhere were not sent"):
                    await producer.send_many("nowhere", [b"a", b"b"])

        run(scenario())


@pytest.mark.parametrize("commits", [True, False])
def test_a_bulk_is_part_of_its_transaction(broker: Broker, commits: bool) -> None:
    topic = f"transaction-{commits}"

    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": topic}
        async with Producer(**settings) as producer:
            producer.begin()
            producer.send_many(topic, [b"%d" % number for number in range(500)], partition=0)
            await (producer.commit() if commits else producer.abort())
            async with producer.transaction():
                producer.send(topic, b"last", partition=0)
        wanted = [b"%d" % number for number in range(500)] * commits + [b"last"]
        found = await table_of(broker, topic, len(wanted), isolation_level="read_committed")
        assert found.column("value").to_pylist() == wanted

    run(scenario())


def test_a_bulk_that_an_abort_finds_unsent_fails(broker: Broker) -> None:
    async def scenario() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "cut", "buffer_memory": 100_000}
        async with Producer(**settings) as producer:
            producer.begin()
            future = producer.send_many("cut", [bytes(1_000)] * 5_000)
            await producer.abort()
            with pytest.raises(AbortableError):
                await future

    run(scenario())


def test_polling_rows_moves_the_position_as_polling_records_does(broker: Broker) -> None:
    async def scenario() -> None:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        async with Producer(**servers) as producer:
            await producer.send_many("positions", [b"%d" % number for number in range(1_000)], partition=0)
        async with Consumer(**servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([("positions", 0)])
            seen: list[bytes] = []
            draw = random.Random(3)
            while len(seen) < 1_000:
                count = draw.randrange(1, 90)
                if draw.random() < 0.5:
                    table = await consumer.poll_arrow(max_records=count)
                    assert 0 < len(table) <= count
                    seen += table.column("value").to_pylist()
                else:
                    seen += [record.value for record in await consumer.poll(max_records=count)]
                assert await consumer.position(("positions", 0)) == len(seen)
            assert seen == [b"%d" % number for number in range(1_000)]
            nothing = await consumer.poll_arrow(50)
            assert (len(nothing), nothing.column_names[0]) == (0, "topic")
            assert consumer.metrics()["records-consumed-total"] == 1_000

    run(scenario())


def test_a_group_commits_what_was_polled_as_rows(broker: Broker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "rows", "auto_offset_reset": "earliest"}
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        written = producer.send_many("of-group", [b"%d" % number for number in range(300)]).result()
        assert sum(part.record_count for part in written.partitions.values()) == 300
    with blocking.Consumer(**settings, enable_auto_commit=False) as consumer:
        consumer.subscribe(["of-group"])
        count = 0
        while count < 300:
            count += len(consumer.poll_arrow(5_000))
        consumer.commit()
    with blocking.Consumer(**settings) as again:
        again.subscribe(["of-group"])
        assert len(again.poll_arrow(300)) == 0


def test_threads_send_tables_and_read_them(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, buffer_memory=50_000) as producer:
        futures = [producer.send_arrow("threads", pa.table({"value": [bytes(100)] * 1_000})) for _ in range(5)]
        assert sum(future.result().record_count for future in futures) == 5_000


def test_without_arrow_the_error_names_the_extra(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where pyarrow is not installed."""
    real = builtins.__import__

    def importing(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return real(name, *rest)

    for name in [name for name in sys.modules if name.startswith("semel.client.arrow.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", importing)
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        with pytest.raises(ImportError, match=r"send_many needs numpy and pyarrow: pip install 'semel\[arrow\]'"):
            producer.send_many("absent", [b"a"])
        assert producer.send("absent", b"a").result(PATIENCE_S).offset is not None
    with blocking.Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([("absent", 0)])
        with pytest.raises(ImportError, match="poll_arrow needs"):
            consumer.poll_arrow(10)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"value": [b"a"], "colour": ["red"]}, "colour"),
        ({"value": [b"a"], "partition": [-1]}, "partitions are counted from 0"),
        ({"value": [1.5]}, "double"),
    ],
)
def test_a_table_that_holds_no_records_is_refused(broker: Broker, table: dict[str, Any], message: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        with pytest.raises((ValueError, TypeError), match=message):
            producer.send_arrow("odd", pa.table(table))
        with pytest.raises(ValueError, match="differ in length"):
            producer.send_many("odd", [b"a", b"b"], keys=[b"k"])
        with pytest.raises(TypeError, match="bytes"):
            producer.send_many("odd", [1, 2])
