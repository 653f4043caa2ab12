"""A pipeline of a Spark Connect client, with a server of its own: ``python -m tests.spark.connect_job SERVERS FOLDER``.

It reads what is there, in batches of ten, and stops. What a query ends with is printed. With ``fails`` it fails behind
the commit of batch 1; with ``refused`` nothing runs, and why is printed, for each thing that cannot be done from here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from semel.spark import Refused, pipeline, register
from semel.spark.java import use_java
from semel.spark.sink.sink import no_step_hook
from tests.spark.jobs import fails_at


def main() -> int:
    servers, folder, *how = sys.argv[1:]
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
    if how == ["refused"]:
        for text in _refusals(spark, rows, servers, folder):
            print(text)
    else:
        _count(rows, servers, folder, fails=how == ["fails"])
    spark.stop()
    return 0


def _count(rows: DataFrame, servers: str, folder: str, *, fails: bool) -> None:
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
            reached=fails_at("committed", 1) if fails else no_step_hook,
        ).start()
        query.awaitTermination()
    except PySparkException as error:
        print(error)


def _refusals(spark: SparkSession, rows: DataFrame, servers: str, folder: str) -> Iterator[object]:
    rows.createOrReplaceTempView("seen")
    foreign = spark.readStream.format("rate").load().select(sf.col("value").cast("string").alias("value"))
    for df, arrow in ((rows, lambda batch: batch), (spark.table("seen"), None), (foreign, None)):
        try:
            pipeline(
                df,
                topic="out",
                transactional_id="jobs",
                servers=servers,
                checkpoint=f"{folder}/refused",
                arrow=arrow,
            ).start()
        except (Refused, PySparkException) as error:
            yield error


if __name__ == "__main__":
    sys.exit(main())
