"""A stateful Spark query, exactly once: what every customer spent in every hour, written when the hour is over.

An order is JSON, with its customer as the key and the time of the order as the timestamp; if there are no orders, the
program writes some. Each micro-batch is one Kafka transaction, with the totals that it wrote and the offsets that it
consumed. You may kill this program at any time and start it again with the same checkpoint: every total is written
once, and every order is in one of them. With --follow it continues with new orders. With --table totals.db the same
totals are also rows of an SQLite file, each of them once.
"""

import argparse
import os
import sqlite3
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from sample_orders import create, make_orders

from semel.blocking import Consumer
from semel.spark import pipeline, register
from semel.spark.java import use_java
from semel.spark.sinks import SQLite


def totals(orders: DataFrame) -> DataFrame:
    """An ordinary Spark query. The pipeline writes its columns key and value."""
    order = sf.from_json(sf.col("value").cast("string"), "amount LONG")
    return (
        orders.select("key", "timestamp", order["amount"].alias("amount"))
        .withWatermark("timestamp", "2 hours")
        .groupBy("key", sf.window("timestamp", "1 hour").alias("hour"))
        .agg(sf.count("*").alias("orders"), sf.sum("amount").alias("spent"))
        .select("key", sf.to_json(sf.struct("hour.start", "orders", "spent")).alias("value"))
    )


def in_table(path: str) -> SQLite:
    """Return a second sink: a table in an SQLite file, which gets the same batches."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE IF NOT EXISTS totals (customer TEXT, total TEXT)")
    return SQLite(path, "totals", columns=["string(key) AS customer", "value AS total"])


def start(
    spark: SparkSession,
    servers: str,
    checkpoint: str,
    *,
    table: str | None = None,
    rows_per_batch: int = 100_000,
    **trigger: object,
) -> StreamingQuery:
    """Start the pipeline, and return its query. The topics orders and totals must exist."""
    register(spark)
    orders = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", "totals-job")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )
    return pipeline(
        totals(orders),
        topic="totals",
        transactional_id="totals-job",
        servers=servers,
        checkpoint=checkpoint,
        trigger=trigger,
        also=[] if table is None else [in_table(table)],
    ).start()


def written(servers: str) -> list[str]:
    """Return the totals as a reader finds them: a line for each customer and each hour that is over."""
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [("totals", index) for index in range(consumer.partitions_for("totals"))]
        consumer.assign(partitions)
        lines = []
        while any(consumer.lag(partition) for partition in partitions):
            records = consumer.poll(500)
            lines += (f"{record.key.decode()} {record.value.decode()}" for record in records)
    return sorted(lines)


def run(servers: str, checkpoint: str, rows_per_batch: int, follow: bool, table: str | None = None) -> None:
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    make_orders(servers)
    create(servers, "totals")
    spark = SparkSession.builder.appName("totals").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    trigger = {} if follow else {"availableNow": True}
    start(spark, servers, checkpoint, table=table, rows_per_batch=rows_per_batch, **trigger).awaitTermination()
    print(*written(servers), sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What every customer spent in every hour, exactly once.")
    parser.add_argument("servers", nargs="?", default="127.0.0.1:9092")
    parser.add_argument("--checkpoint", default="checkpoints/totals")
    parser.add_argument("--table", help="an SQLite file, for the same totals as rows")
    parser.add_argument("--rows-per-batch", type=int, default=100_000)
    parser.add_argument("--follow", action="store_true", help="go on with the orders that come, until it is ended")
    run(**vars(parser.parse_args()))
