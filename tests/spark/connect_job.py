"""A pipeline of a Spark Connect client, with a server of its own: ``python -m tests.spark.connect_job SERVERS FOLDER``.

It reads what is there, in batches of ten, and stops. With a third argument it fails behind the commit of batch 1. What
a query ends with is printed.
"""

from __future__ import annotations

import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from semel.spark import pipeline, register
from semel.spark.java import use_java
from semel.spark.sink import nothing_reached
from tests.spark.jobs import fails_at


def main() -> int:
    servers, folder, *fails = sys.argv[1:]
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", folder)
        .getOrCreate()
    )
    register(spark)
    rows = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.group.id", "jobs")
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10)
        .load()
    )
    counts = rows.groupBy("key").count().select("key", sf.col("count").cast("string").alias("value"))
    try:
        query = pipeline(
            counts,
            topic="out",
            transactional_id="jobs",
            servers=servers,
            checkpoint=f"{folder}/checkpoint",
            output_mode="update",
            trigger={"availableNow": True},
            reached=fails_at("committed", 1) if fails else nothing_reached,
        ).start()
        query.awaitTermination()
    except PySparkException as error:
        print(error)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
