# mypy: ignore-errors
"""Faust (faust-streaming): copies every value of ``input`` to ``output``."""

import os
import sys

import faust

app = faust.App(
    "faust-copy",
    broker=f"kafka://{os.environ['BOOTSTRAP_SERVERS']}",
    datadir=sys.argv.pop(),
    store="memory://",
    topic_replication_factor=1,
    topic_partitions=1,
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    broker_commit_every=50,
    consumer_auto_offset_reset="earliest",
)
given = app.topic("input", value_type=bytes, value_serializer="raw")
copied = app.topic("output", value_type=bytes, value_serializer="raw")


@app.agent(given)
async def copy(values):
    async for value in values:
        await copied.send(value=value)


if __name__ == "__main__":
    app.main()
