"""``python -m benchmarks.spark.sinks``: the sinks beside Spark's own writers, and the price of the ledger.

All append the same rows, in turn, from one session of Spark. The Postgres sink stands beside Spark's JDBC writer, which
is at-least-once and sends 10,000 rows at a time, to the same kind of table in one Postgres. Files, Delta and Iceberg
stand beside Spark's writer of Parquet: there is no jar of Delta or Iceberg for this Spark, and what theirs write is
such files and a commit. The ledger's price is a batch of one row through the Postgres sink, less one row that is
inserted and committed: no Spark in either.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from benchmarks import machine
from semel.spark.decision import SourcePartition
from semel.spark.java import use_java
from semel.spark.sinks import BatchSink, Delta, Files, Iceberg, Owner, Postgres, SinkBatch
from semel.types import TopicPartition
from tools.kafka_jars import Unavailable, cache, fetch_jars
from tools.ports import HOST, free_port
from tools.postgres import PostgresServer, postgres_server
from tools.rows_without_spark import Rows

ROWS = 300_000
ROUNDS = 5
SMALL_BATCHES = 100
_JDBC = "org.postgresql:postgresql:42.7.7"
_TABLE = "CREATE TABLE {name} (id bigint, customer text, amount double precision, placed timestamptz)"
_SCHEMA = pa.schema(
    {"id": pa.int64(), "customer": pa.string(), "amount": pa.float64(), "placed": pa.timestamp("us", tz="UTC")}
)
_PARTITION = SourcePartition("bench", TopicPartition("in", 0))


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
            rows = rows_of(spark, ROWS)
            tables(rows, server, f"jdbc:postgresql://{HOST}:{port}/postgres?user=postgres")
            folders(rows)
        finally:
            spark.stop()
    return 0


def rows_of(spark: SparkSession, count: int) -> DataFrame:
    """Computed already."""
    rows = spark.range(count, numPartitions=2).selectExpr(
        "id", "concat('customer-', id % 1000) AS customer", "id / 7.0D AS amount", "timestamp_seconds(id) AS placed"
    )
    rows = rows.persist()
    rows.count()
    return rows


def tables(rows: DataFrame, server: PostgresServer, url: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in ("by_semel", "by_jdbc"):
            connection.execute(_TABLE.format(name=name))

        def emptied() -> None:
            connection.execute("TRUNCATE by_semel, by_jdbc")
            connection.execute("CHECKPOINT")

        writers = {
            "Spark's JDBC writer": lambda number: _by_jdbc(rows, url),
            "the Postgres sink": _by_sink(Postgres(server.dsn, "by_semel"), rows),
        }
        in_turn(writers, emptied)


def folders(rows: DataFrame) -> None:
    with TemporaryDirectory(prefix="semel-bench-") as folder:
        plain = f"{folder}/parquet"
        in_turn(
            {
                "Spark's writer of Parquet": lambda number: rows.write.mode("append").parquet(plain),
                "the Files sink": _by_sink(Files(f"{folder}/files"), rows),
                "the Delta sink": _by_sink(Delta(f"{folder}/delta"), rows),
                "the Iceberg sink": _by_sink(Iceberg("bench.rows", catalog=_catalog(folder)), rows),
            },
            os.sync,
        )


def in_turn(writers: Mapping[str, Callable[[int], object]], prepare: Callable[[], None]) -> None:
    """Print the rates of all. A writer is told the round. The first one warms up and does not count."""
    rates: dict[str, list[float]] = {name: [] for name in writers}
    for number in range(ROUNDS + 1):
        for name, write in writers.items():
            prepare()
            seconds = _seconds(lambda: write(number))  # noqa: B023
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


def _by_sink(sink: BatchSink, rows: DataFrame) -> Callable[[int], object]:
    sink.check(rows)
    sink.prepare(Owner("bench", 1, 0))
    return lambda number: sink.write(rows, _batch(number))


def _catalog(folder: str) -> dict[str, str]:
    """With the table that is written."""
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    Path(folder, "warehouse").mkdir()
    lake = load_catalog("default", **catalog)
    lake.create_namespace("bench")
    lake.create_table("bench.rows", _SCHEMA)
    return catalog


def _by_jdbc(rows: DataFrame, url: str) -> None:
    options = {"driver": "org.postgresql.Driver", "batchsize": "10000"}
    rows.write.jdbc(url, "by_jdbc", mode="append", properties=options)


def _batch(number: int) -> SinkBatch:
    return SinkBatch("bench", number, {_PARTITION: number})


def _seconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
