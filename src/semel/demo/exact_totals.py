"""The demo's job with ``semel.spark``: totals and consumed offsets are committed in one Kafka transaction for each
micro-batch.

The same totals are also written as rows of an SQLite file. ``python -m semel.demo.exact_totals`` runs until it is
killed.
"""

from __future__ import annotations

import argparse
import sqlite3

from semel.demo.orders import GROUP
from semel.demo.totals import make_session, read_orders, totals
from semel.spark import pipeline
from semel.spark.sinks import SQLite


def run(servers: str, checkpoint: str, rows_per_batch: int, table: str) -> None:
    """Run the job until the process is killed."""
    with sqlite3.connect(table) as database:
        database.execute("CREATE TABLE IF NOT EXISTS totals (customer TEXT, total TEXT)")
    spark = make_session("exactly-once")
    query = pipeline(
        totals(read_orders(spark, servers, rows_per_batch, group=GROUP)),
        topic="totals",
        transactional_id=GROUP,
        servers=servers,
        checkpoint=checkpoint,
        also=[SQLite(table, "totals", columns=["string(key) AS customer", "value AS total"])],
    ).start()
    query.awaitTermination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What every customer spent in every hour, exactly once.")
    parser.add_argument("servers")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--rows-per-batch", type=int, required=True)
    parser.add_argument("--table", required=True, help="an SQLite file, for the same totals as rows")
    run(**vars(parser.parse_args()))
