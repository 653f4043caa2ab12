"""The query of both jobs: what every customer spent in every hour, written when the hour is over.

``examples/spark_totals.py`` has the same query in a program that users can start from.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from semel.spark import register
from semel.spark.java import use_java


def totals(orders: DataFrame) -> DataFrame:
    """Return the totals in the columns key and value: the customer, and a total as JSON."""
    order = sf.from_json(sf.col("value").cast("string"), "amount LONG")
    return (
        orders.select("key", "timestamp", order["amount"].alias("amount"))
        .withWatermark("timestamp", "2 hours")
        .groupBy("key", sf.window("timestamp", "1 hour").alias("hour"))
        .agg(sf.count("*").alias("orders"), sf.sum("amount").alias("spent"))
        .select("key", sf.to_json(sf.struct("hour.start", "orders", "spent")).alias("value"))
    )


def make_session(name: str) -> SparkSession:
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName(name).config("spark.sql.shuffle.partitions", "2").getOrCreate()
    register(spark)
    return spark


def read_orders(spark: SparkSession, servers: str, rows_per_batch: int, *, group: str | None = None) -> DataFrame:
    """Return the topic orders as a stream. ``group`` is set for a pipeline, which commits its offsets under it."""
    stream = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
    )
    return (stream if group is None else stream.option("kafka.group.id", group)).load()
