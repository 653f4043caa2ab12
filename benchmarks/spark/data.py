"""What the queries read: keyed records over a span of time, and a trickle of records that know when they were sent."""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.topics import QUIET, end_offsets
from tools.server import Server

PARTITIONS: Final = 4
KEYS: Final = 1_000

_SPAN_MS: Final = 200_000
_POLLED_EVERY: Final = 10_000
_DEADLINE_S: Final = 60.0


def fill(server: Server, topic: str, *, records: int, record_bytes: int) -> None:
    """So many records, over the last two hundred seconds: older ones would soon be removed."""
    first_ms = int(time.time() * 1000) - _SPAN_MS
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "enable.idempotence": True,
            "batch.size": 1_000_000,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            **QUIET,
        }
    )
    keys = [b"key-%04d" % number for number in range(KEYS)]
    value = bytes(record_bytes - len(keys[0]))
    for number in range(records):
        time_ms = first_ms + number * _SPAN_MS // records
        produced = False
        while not produced:
            try:
                producer.produce(topic, value, keys[number % KEYS], number % PARTITIONS, timestamp=time_ms)
                produced = True
            except BufferError:
                producer.poll(0.01)
        if number % _POLLED_EVERY == 0:
            producer.poll(0)
    producer.flush(120)
    stored = sum(end_offsets(server, topic, PARTITIONS))
    assert stored == records, f"{records} records were sent and {stored} are stored"


class Trickle:
    """Records sent one by one to ``source``; the times they took to reach a read_committed reader of ``sink``."""

    def __init__(self, server: Server, source: str, sink: str) -> None:
        self._source = source
        settings = {"bootstrap.servers": server.bootstrap_servers, **QUIET}
        self._producer = Producer({**settings, "linger.ms": 0})
        self._consumer = Consumer(
            {**settings, "group.id": sink, "isolation.level": "read_committed", "fetch.wait.max.ms": 10}
        )
        self._consumer.assign([TopicPartition(sink, partition, 0) for partition in range(PARTITIONS)])

    def latencies_ms(self, *, per_second: int, seconds: float) -> list[float]:
        """Of all records sent in that time, in the order in which they arrived."""
        count = int(per_second * seconds)
        sender = threading.Thread(target=self._send, args=(count, 1 / per_second), daemon=True)
        sender.start()
        taken = self._receive(count, time.monotonic() + seconds + _DEADLINE_S)
        sender.join()
        return taken

    def close(self) -> None:
        self._consumer.close()

    def _send(self, count: int, between_s: float) -> None:
        due = time.perf_counter()
        for number in range(count):
            self._producer.produce(self._source, b"%d" % time.perf_counter_ns(), b"key-%d" % number)
            self._producer.poll(0)
            due += between_s
            time.sleep(max(0.0, due - time.perf_counter()))
        self._producer.flush(30)

    def _receive(self, count: int, deadline: float) -> list[float]:
        taken: list[float] = []
        while len(taken) < count:
            for message in self._consumer.consume(1_000, timeout=0.05):
                value = message.value()
                assert message.error() is None, message.error()
                assert isinstance(value, bytes)
                taken.append((time.perf_counter_ns() - int(value)) / 1e6)
            assert time.monotonic() < deadline, f"{len(taken)} of {count} records arrived in time"
        return taken
