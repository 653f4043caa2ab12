"""Throughput with librdkafka, through confluent-kafka, with as little Python per record as it allows.

One value is allocated and sent over and over; no delivery report is made for a success; the queue is watched through
the exception it raises when it is full. What was sent is compared with the end offsets afterwards, so a figure counts
only what the broker has.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import repeat
from operator import length_hint
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.contestants import Contestant
from benchmarks.measuring import Effort, LifecycleWorkload, Measured, Row, Workload
from benchmarks.processors import Watch
from benchmarks.topics import QUIET, end_offsets, fresh_topic
from semel.testing import certificate
from tools.ports import HOST
from tools.server import Server, running

PARTITIONS = 4
_SENT_AT_ONCE = 500


def produce_workload(record_bytes: int, batch_bytes: int, row: Row) -> Workload:
    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, PARTITIONS) as topic:
            watch = Watch(server)
            records, elapsed_s = produce_for(server, topic, record_bytes, batch_bytes, seconds=effort.seconds)
            figure = records * record_bytes / elapsed_s / 1e6 if row.unit == "MB/s" else records / elapsed_s
            usage = watch.usage()
        return Measured({row.key: figure}, usage)

    return Workload(row.title, (row,), measure)


def tls_workload(record_bytes: int, batch_bytes: int, row: Row) -> LifecycleWorkload:
    """The same over TLS, on a broker of its own."""

    def measure(contestant: Contestant, folder: Path, effort: Effort) -> Measured:
        with running(contestant.make(folder, secured=("SSL",))) as server, fresh_topic(server, PARTITIONS) as topic:
            authority = folder / "authority.pem"
            authority.write_text(certificate.AUTHORITY)
            security = {
                "bootstrap.servers": f"{HOST}:{server.launch.secured_ports['SSL']}",
                "security.protocol": "ssl",
                "ssl.ca.location": str(authority),
            }
            watch = Watch(server)
            records, elapsed_s = produce_for(
                server, topic, record_bytes, batch_bytes, seconds=effort.seconds, security=security
            )
            return Measured({row.key: records * record_bytes / elapsed_s / 1e6}, watch.usage())

    return LifecycleWorkload(row.title, (row,), measure)


def consume_workload(row: Row, *, record_bytes: int, batch_bytes: int) -> Workload:
    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, PARTITIONS) as topic:
            # Read for about as long as it is written: as much as a few seconds of producing leave behind.
            produce_for(server, topic, record_bytes, batch_bytes, seconds=effort.seconds)
            watch = Watch(server)
            records, elapsed_s = consume_all(server, topic)
            usage = watch.usage()
        return Measured({row.key: records * record_bytes / elapsed_s / 1e6}, usage)

    return Workload(row.title, (row,), measure)


def produce_for(
    server: Server,
    topic: str,
    record_bytes: int,
    batch_bytes: int,
    *,
    seconds: float = float("inf"),
    total_bytes: int | None = None,
    security: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, float]:
    """Send until the time or the amount is reached and all is acknowledged; records sent, and seconds taken.

    ``security``: settings of librdkafka, over the others.
    """
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "enable.idempotence": True,
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2_000_000,
            # Enough for all batches under way, and small enough that the same memory is used again while it is warm.
            "queue.buffering.max.kbytes": 32 * 1024,
            "delivery.report.only.error": True,
            **QUIET,
            **security,
        }
    )
    produce, value = producer.produce, bytes(record_bytes)
    # The first record brings the connection and the producer id; they are not what is measured.
    produce(topic, value, None, 0)
    producer.flush(30)
    sent, partition = 1, 0
    records_max = total_bytes // record_bytes if total_bytes is not None else None
    started = time.perf_counter()
    while time.perf_counter() - started < seconds and (records_max is None or sent < records_max):
        partition = (partition + 1) % PARTITIONS
        taken = _send(produce, topic, value, partition)
        sent += taken
        if taken < _SENT_AT_ONCE:
            producer.poll(0.002)
    unanswered = producer.flush(120)
    elapsed_s = time.perf_counter() - started
    stored = sum(end_offsets(server, topic, PARTITIONS))
    assert unanswered == 0, f"{unanswered} records were not acknowledged within two minutes"
    assert stored == sent, f"{sent} records were sent and {stored} are stored"
    return sent, elapsed_s


def consume_all(server: Server, topic: str) -> tuple[int, float]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4_000_000,
            "fetch.wait.max.ms": 100,
            # A full queue makes librdkafka pause, which would look like a slow broker.
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
            **QUIET,
        }
    )
    try:
        wanted = sum(end_offsets(server, topic, PARTITIONS))
        # librdkafka waits half a second before it asks again for a leader that it does not know yet.
        consumer.list_topics(topic, timeout=10)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        read = 0
        started = time.perf_counter()
        while read < wanted:
            read += len(consumer.consume(num_messages=50_000, timeout=0.1))
            assert time.perf_counter() - started < 120, f"{read} of {wanted} records after two minutes"
        return read, time.perf_counter() - started
    finally:
        consumer.close()


def _send(produce: Callable[..., None], topic: str, value: bytes, partition: int) -> int:
    """Offer the value many times without a line of Python per record; returns how many the queue had room for."""
    left = repeat(value, _SENT_AT_ONCE)
    try:
        deque(map(produce, repeat(topic), left, repeat(None), repeat(partition)), maxlen=0)
    except BufferError:
        return _SENT_AT_ONCE - length_hint(left) - 1
    return _SENT_AT_ONCE
