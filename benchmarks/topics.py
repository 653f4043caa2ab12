"""Topics that live for one measurement."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tools.load import create_topic
from tools.server import Server

# librdkafka's own remarks would land in the middle of the progress.
QUIET = {"log_level": 2}

_numbers = itertools.count()


@contextmanager
def fresh_topic(server: Server, partitions: int) -> Iterator[str]:
    """A topic that is deleted afterwards: what is left behind would be written to disk during the next measurement."""
    topic = f"bench-{next(_numbers)}"
    create_topic(server.bootstrap_servers, topic, partitions=partitions)
    _wait_for_leaders(server, topic, partitions)
    try:
        yield topic
    finally:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, **QUIET})
        for deleted in admin.delete_topics([topic]).values():
            deleted.result(timeout=30)


def end_offsets(server: Server, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "bench", **QUIET})
    try:
        ends = []
        for partition in range(partitions):
            offsets = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            assert offsets is not None, f"no offsets of {topic}-{partition} within 30 s"
            ends.append(offsets[1])
        return ends
    finally:
        consumer.close()


def _wait_for_leaders(server: Server, topic: str, partitions: int) -> None:
    """Apache Kafka answers CreateTopics before the partitions take requests; a benchmark must not start in between."""
    deadline = time.monotonic() + 30
    while True:
        try:
            end_offsets(server, topic, partitions)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
