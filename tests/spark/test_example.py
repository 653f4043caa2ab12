"""``examples/spark_totals.py`` as somebody would run it: twice, with orders coming in between."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from semel.blocking import Producer
from semel.testing import Broker
from tests.examples.loading import load_example
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
            spark, broker.bootstrap_servers, str(tmp_path), rows_per_batch=3, availableNow=True
        ).awaitTermination()
    written = [(record.key, json.loads(record.value or b"")) for record in committed(broker, "totals")]
    assert sorted((key, total["start"][:13], total["orders"], total["spent"]) for key, total in written) == [
        (b"ann", "1970-01-01T00", 2, 17),
        (b"ann", "1970-01-01T02", 1, 1),
        (b"bob", "1970-01-01T00", 1, 5),
        (b"bob", "1970-01-01T01", 2, 105),
    ]
