"""``python -m benchmarks.spark.sinks``: the Postgres sink beside Spark's own JDBC writer, and the price of the ledger.

Both append the same rows to the same kind of table in one Postgres, in turn, from one session of Spark; JDBC's writer
is at-least-once, and sends 10,000 rows at a time. The ledger's price is a batch of one row through the sink, less one
row that is inserted and committed: no Spark in either.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks import machine
from semel.spark.decision import Place
from semel.spark.java import use_java
from semel.spark.sinks import Owner, Postgres, SinkBatch
from semel.types import TopicPartition
from tools.kafka_jars import Unavailable, cache, fetch_jars
from tools.postgres import PostgresServer, postgres_server
from tools.rows_without_spark import Rows
from tools.server import HOST, free_port

ROWS = 300_000
ROUNDS = 5
SMALL_BATCHES = 100
_JDBC = "org.postgresql:postgresql:42.7.7"
_TABLE = "CREATE TABLE {name} (id bigint, customer text, amount double precision, placed timestamptz)"
_PLACE = Place("bench", TopicPartition("in", 0))


def main() -> int:
    jars = cache() / "postgresql-jdbc"
    try:
        if not jars.is_dir():
            fetch_jars("the JDBC driver of Postgres (1 MB, once)", [_JDBC], jars, without="")
    except Unavailable as missing:
        print(f"semel: {missing}", file=sys.stderr)
        return 1
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    print(machine.sentence(machine.describe()))
    port = free_port()
    with postgres_server(port=port) as server:
        print(f"the ledger: {ledger_ms(server):.1f} ms for each batch (median of {SMALL_BATCHES})")
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        spark = builder.config("spark.jars", ",".join(map(str, jars.glob("*.jar")))).getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        try:
            contest(spark, server, f"jdbc:postgresql://{HOST}:{port}/postgres?user=postgres")
        finally:
            spark.stop()
    return 0


def contest(spark: SparkSession, server: PostgresServer, url: str) -> None:
    rows = spark.range(ROWS, numPartitions=2).selectExpr(
        "id", "concat('customer-', id % 1000) AS customer", "id / 7.0D AS amount", "timestamp_seconds(id) AS placed"
    )
    rows = rows.persist()
    rows.count()
    sink = Postgres(server.dsn, "by_semel")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in ("by_semel", "by_jdbc"):
            connection.execute(_TABLE.format(name=name))
        sink.check(rows)
        sink.prepare(Owner("bench", 1, 0))
        rates: dict[str, list[float]] = {"Spark's JDBC writer": [], "the Postgres sink": []}
        # The first round warms up and does not count.
        for number in range(ROUNDS + 1):
            for name, write in (
                ("Spark's JDBC writer", lambda: _by_jdbc(rows, url)),
                ("the Postgres sink", lambda: sink.write(rows, _batch(number))),  # noqa: B023
            ):
                connection.execute("TRUNCATE by_semel, by_jdbc")
                connection.execute("CHECKPOINT")
                seconds = _seconds(write)
                if number:
                    rates[name].append(ROWS / seconds)
    for name, found in rates.items():
        listed = ", ".join(f"{rate:,.0f}" for rate in found)
        print(f"{name}: best {max(found):,.0f} rows/s, median {statistics.median(found):,.0f} ({listed})")


def ledger_ms(server: PostgresServer) -> float:
    one: object = Rows(pa.table({"id": [1]}), part_count=1)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in ("with_ledger", "without_ledger"):
            connection.execute(f"CREATE TABLE {name} (id bigint)")
        sink = Postgres(server.dsn, "with_ledger")
        sink.prepare(Owner("bench", 1, 0))
        kept: list[float] = []
        for number in range(SMALL_BATCHES):
            plain = _seconds(lambda: connection.execute("INSERT INTO without_ledger VALUES (1)"))
            batch = _batch(number)
            kept.append(_seconds(lambda: sink.write(one, batch)) - plain)  # type: ignore[arg-type]  # noqa: B023
    return statistics.median(kept) * 1000


def _by_jdbc(rows: DataFrame, url: str) -> None:
    options = {"driver": "org.postgresql.Driver", "batchsize": "10000"}
    rows.write.jdbc(url, "by_jdbc", mode="append", properties=options)


def _batch(number: int) -> SinkBatch:
    return SinkBatch("bench", number, {_PLACE: number})


def _seconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
