# mypy: ignore-errors
"""Quix Streams, exactly once: counts each key in a state store with a changelog, and writes counts to ``output``."""

import os
import sys
import time

from quixstreams import Application
from quixstreams.models.topics import TopicConfig

app = Application(
    broker_address=os.environ["BOOTSTRAP_SERVERS"],
    consumer_group="quix",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_every=300,
    commit_interval=2,
    state_dir=sys.argv[1],
    consumer_extra_config={"session.timeout.ms": 6000, "isolation.level": "read_committed"},
    loglevel="ERROR",
)


def counted(value, state):
    time.sleep(0.001)  # Simulated work, so that the kill happens between two commits.
    count = state.get("count", 0) + 1
    state.set("count", count)
    return str(count)


config = TopicConfig(num_partitions=1, replication_factor=1)
words = app.dataframe(app.topic("input", value_deserializer="string", config=config))
words.apply(counted, stateful=True).to_topic(app.topic("output", value_serializer="string", config=config))

if __name__ == "__main__":
    app.run()
