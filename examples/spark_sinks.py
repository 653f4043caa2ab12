"""Orders from a topic into a table and a lake, exactly once: each of them has every order, except refused ones.

The table is in an SQLite file and refuses orders above a limit: such orders go to the topic orders-refused, with their
source partition and offset, in the transaction that commits the offsets that were read. The lake is a Delta table,
which has all orders. You may kill this program at any time and start it again with the same folder. With --rewind it
reads everything again, in a new generation: the table's rows are replaced, by their partition and offset, and the lake
has the orders twice.
"""

import argparse
import os
import sqlite3
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from sample_orders import create, make_orders

from semel.spark import Pipeline, pipeline, register
from semel.spark.java import use_java
from semel.spark.sinks import Delta, SQLite

COLUMNS = [
    "partition",
    "offset",
    "string(key) AS customer",
    "bigint(get_json_object(string(value), '$.amount')) AS amount",
]


def orders_into(spark: SparkSession, servers: str, folder: Path) -> Pipeline:
    """Return the pipeline. The topics orders and orders-refused must exist."""
    register(spark)
    with sqlite3.connect(folder / "orders.db") as database:
        database.execute(
            'CREATE TABLE IF NOT EXISTS orders (partition INTEGER, "offset" INTEGER, customer TEXT, '
            'amount INTEGER CHECK (amount <= 1500), PRIMARY KEY (partition, "offset"))'
        )
    orders = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", "orders-into")
        .load()
    )
    table = SQLite(folder / "orders.db", "orders", mode="upsert", keys=["partition", "offset"], columns=COLUMNS)
    return pipeline(
        orders,
        also=[table, Delta(folder / "lake" / "orders", columns=COLUMNS)],
        dead_letter_topic="orders-refused",
        transactional_id="orders-into",
        servers=servers,
        checkpoint=str(folder / "checkpoint"),
        trigger={"availableNow": True},
    )


def run(servers: str, folder: Path, rewind: bool) -> None:
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder.mkdir(parents=True, exist_ok=True)
    make_orders(servers)
    create(servers, "orders-refused")
    into = orders_into(SparkSession.builder.appName("orders-into").getOrCreate(), servers, folder)
    if rewind:
        print(*into.rewind("earliest", is_confirmed=True).warnings, sep="\n")
    into.start().awaitTermination()
    for one in into.sink_progress():
        print(f"{one.sink}: {one.row_count} rows, {one.refused_count} refused")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Orders into a table and a lake, exactly once.")
    parser.add_argument("servers", nargs="?", default="127.0.0.1:9092")
    parser.add_argument("--folder", type=Path, default=Path("orders-into"))
    parser.add_argument("--rewind", action="store_true", help="read everything again")
    run(**vars(parser.parse_args()))
