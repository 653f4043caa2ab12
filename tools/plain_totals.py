"""The job of ``examples/spark_totals.py`` with a plain sink: ``foreachBatch`` and an ordinary producer.

It is at-least-once, as Spark's own Kafka sink is: what a batch has written stays written when the driver dies before
Spark has noted the batch as done, and the batch is written again after the restart. ``make demo`` shows that.
"""

from __future__ import annotations

import argparse
import os
import sys

from pyspark.sql import DataFrame, SparkSession
from spark_totals import totals  # type: ignore[import-not-found]

from semel.blocking import Producer
from semel.spark import register
from semel.spark.java import use_java

TOPIC = "totals-plain"


def run(servers: str, checkpoint: str, rows_per_batch: int) -> None:
    """Until the process is ended."""
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("plain").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    register(spark)
    orders = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )
    with Producer(bootstrap_servers=servers) as producer:

        def write(batch: DataFrame, batch_id: int) -> None:
            for row in batch.collect():
                producer.send(TOPIC, row["value"].encode(), bytes(row["key"]))
            producer.flush()

        query = totals(orders).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
        query.awaitTermination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What every customer spent in every hour, at least once.")
    parser.add_argument("servers")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--rows-per-batch", type=int, required=True)
    run(**vars(parser.parse_args()))
