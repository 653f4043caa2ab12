"""``examples/spark_totals.py`` and ``totals.toml`` as a reader runs them: on an empty broker, and twice, with orders
coming in between."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from semel.blocking import Producer
from semel.spark.job import PipelineJob
from semel.testing import Broker
from tests.examples.loading import EXAMPLES, load_example
from tests.spark.topics import committed, create

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def spark_totals() -> ModuleType:
    return load_example("spark_totals")


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Of records from 1970 it removes none."""
    with Broker(num_partitions=2, log_retention_ms=-1) as running:
        yield running


def order(broker: Broker, orders: Iterable[tuple[str, int, int]]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for customer, hour, amount in orders:
            value = json.dumps({"amount": amount}).encode()
            producer.send("orders", value, customer.encode(), timestamp=hour * HOUR_MS)


def test_every_total_of_every_hour_is_written_once_over_two_runs(
    spark: SparkSession, broker: Broker, spark_totals: ModuleType, tmp_path: Path
) -> None:
    create(broker, "orders", "totals")
    orders = [("ann", 0, 10), ("bob", 0, 5), ("ann", 0, 7), ("bob", 1, 100), ("bob", 1, 5), ("ann", 2, 1)]
    nobody = ("nobody", 100, 0)  # So late that all other hours are over.
    for some in (orders[:4], [*orders[4:], nobody]):
        order(broker, some)
        spark_totals.start(
            spark,
            broker.bootstrap_servers,
            str(tmp_path / "checkpoint"),
            table=str(tmp_path / "totals.db"),
            rows_per_batch=3,
            availableNow=True,
        ).awaitTermination()
    written = [(record.key, json.loads(record.value or b"")) for record in committed(broker, "totals")]
    assert sorted((key, total["start"][:13], total["orders"], total["spent"]) for key, total in written) == [
        (b"ann", "1970-01-01T00", 2, 17),
        (b"ann", "1970-01-01T02", 1, 1),
        (b"bob", "1970-01-01T00", 1, 5),
        (b"bob", "1970-01-01T01", 2, 105),
    ]
    with sqlite3.connect(tmp_path / "totals.db") as database:
        rows = database.execute("SELECT customer, total FROM totals").fetchall()
    in_topic = [(key.decode(), total) for key, total in written if key is not None]
    assert sorted(map(repr, in_topic)) == sorted(repr((customer, json.loads(total))) for customer, total in rows)


def test_on_an_empty_broker_it_shows_the_totals_of_the_hours_that_are_over(
    spark: SparkSession, spark_totals: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker() as broker:
        for _ in range(2):  # The second time there is nothing new, and what was written stays.
            spark_totals.run(broker.bootstrap_servers, str(tmp_path), 100_000, follow=False)
            check_totals(capsys.readouterr().out.splitlines())


def test_the_file_shows_the_same_totals(spark: SparkSession, spark_totals: ModuleType, tmp_path: Path) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        load_example("sample_orders").make_orders(servers)
        create(broker, "totals")
        (tmp_path / "totals.toml").write_text(
            (EXAMPLES / "totals.toml")
            .read_text()
            .replace("127.0.0.1:9092", servers)
            .replace("checkpoints/totals", str(tmp_path / "checkpoint"))
        )
        job = PipelineJob.read(tmp_path / "totals.toml").available_now().pipeline(spark)
        job.check()
        job.start().awaitTermination()
        check_totals(spark_totals.written(servers))


def test_orders_are_in_a_table_or_refused_and_in_a_lake_and_after_a_rewind_once_more(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_sinks = load_example("spark_sinks")
    with Broker() as broker:
        for rewind in (False, False, True):  # The second time there is nothing new.
            spark_sinks.run(broker.bootstrap_servers, tmp_path / "out", rewind)
        refused = [json.loads(record.value or b"") for record in committed(broker, "orders-refused")]
    said = capsys.readouterr().out
    in_lake = DeltaTable(str(tmp_path / "out" / "lake" / "orders")).to_pyarrow_table().to_pylist()
    with sqlite3.connect(tmp_path / "out" / "orders.db") as database:
        in_table = database.execute('SELECT partition, "offset", customer, amount FROM orders').fetchall()
    orders = Counter(tuple(row.values()) for row in in_lake)
    assert (len(orders), set(orders.values())) == (72, {2})
    large = {order for order in orders if order[3] > 1500}
    assert Counter(tuple(row.values()) for row in refused) == Counter([*large, *large])
    assert sorted(in_table) == sorted(set(orders) - large)
    assert "what 72 offsets gave is written again to sqlite:orders, delta:orders" in said
    assert said.count("delta:orders: 72 rows, 0 refused") == 2


def check_totals(lines: list[str]) -> None:
    """Of four customers in six hours, of which two and the present one are not over."""
    assert 8 <= len(lines) <= 20
    assert {line.split()[0] for line in lines} == {"ann", "bob", "cid", "dan"}
    assert all(json.loads(line.partition(" ")[2])["spent"] > 0 for line in lines)
