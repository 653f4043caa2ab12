"""The demo's job with a plain sink: ``foreachBatch`` and an ordinary producer.

It is at-least-once, as Spark's own Kafka sink is: if the driver dies after a batch has written its records and before
Spark has noted the batch as done, the records stay, and are written again after the restart. ``semel demo`` shows that.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame

from semel.blocking import Producer
from semel.demo.totals import make_session, read_orders, totals

TOPIC = "totals-plain"


def run(servers: str, checkpoint: str, rows_per_batch: int) -> None:
    """Run the job until the process is killed."""
    orders = read_orders(make_session("plain"), servers, rows_per_batch)
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
