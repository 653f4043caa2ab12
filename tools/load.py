"""A steady load of numbered records on one topic from idempotent librdkafka producers, and a function to read it back.

Sent records and their acknowledgements go into a ``History``; ``tools.history`` compares it with the result of
``read_back``.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tools.history import Found, History, Sent
from tools.patience import PATIENCE_S, TEST_S_MAX

# The broker may be down for a while; the client should reconnect as soon as it is up.
_IMPATIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 0}


class Load:
    """Producers that send from a thread of their own until ``finish``."""

    def __init__(
        self, bootstrap_servers: str, topic: str, *, partitions: int, producers: int, seed: int, codec: str = "none"
    ) -> None:
        self.history = History()
        self._topic = topic
        self._partitions = partitions
        self._random = random.Random(seed)
        self._sequences: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send_until_stopped, name="load", daemon=True)
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.codec": codec,
            "linger.ms": 1,
            "delivery.timeout.ms": int(TEST_S_MAX * 1000),
            "retry.backoff.ms": 20,
            **_IMPATIENT,
        }
        self._producers = [Producer(settings) for _ in range(producers)]

    def start(self) -> None:
        self._thread.start()

    def acknowledged(self) -> int:
        return len(self.history.acknowledged)

    def wait_for_acknowledged(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until ``count`` records are acknowledged in total. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while self.acknowledged() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.acknowledged()} records acknowledged after {timeout_s:.0f} s, not {count}")
            time.sleep(0.001)

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Stop sending, and wait for at most this time per producer until all sent records are answered."""
        self._stopping.set()
        self._thread.join()
        for producer in self._producers:
            producer.flush(timeout_s)

    def _send_until_stopped(self) -> None:
        while not self._stopping.is_set():
            for number, producer in enumerate(self._producers):
                for _ in range(self._random.randint(1, 20)):
                    self._send(number, producer)
                # Polling calls the callbacks. Waiting in it leaves processor time to others on a small machine.
                unanswered = len(self.history.sent) - self.history.resolved()
                producer.poll(0.001 if unanswered < 2_000 else 0.05)

    def _send(self, number: int, producer: Producer) -> None:
        partition = self._random.randrange(self._partitions)
        sent = Sent(partition, number, self._sequences[partition, number])
        self._sequences[partition, number] += 1
        self.history.sent.add(sent)
        value = sent.to_value(self._random.choice((40, 100, 1_000)))
        producer.produce(self._topic, value, partition=partition, on_delivery=self._answered(sent))

    def _answered(self, sent: Sent) -> Callable[[KafkaError | None, Message], None]:
        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                assert offset is not None
                self.history.acknowledged[sent] = offset
            else:
                self.history.refused[sent] = str(error)

        return answered


def create_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    config: dict[str, str] | None = None,
    leaders: Sequence[int] | None = None,
    replicas: int = 1,
) -> None:
    """Create a topic. With ``leaders`` each partition has one replica, on that broker; else the cluster chooses."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **_IMPATIENT})
    placed: dict[str, Any] = {"replication_factor": replicas}
    if leaders is not None:
        placed = {"replica_assignment": [[leader] for leader in leaders]}
    wanted = NewTopic(topic, num_partitions=partitions, config=config or {}, **placed)
    for created in admin.create_topics([wanted], request_timeout=PATIENCE_S).values():
        created.result(timeout=PATIENCE_S)


def read_back(bootstrap_servers: str, topic: str, *, partitions: int, timeout_s: float = PATIENCE_S) -> list[Found]:
    """Return every record of the topic, from the first to the last one at the time of the call."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "read-back", "enable.auto.commit": False, **_IMPATIENT}
    )
    try:
        ends = {}
        for partition in range(partitions):
            watermarks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
            assert watermarks is not None, f"no offsets of {topic}-{partition} within {PATIENCE_S:.0f} s"
            ends[partition] = watermarks[1]
        consumer.assign([TopicPartition(topic, partition, 0) for partition, end in ends.items() if end > 0])
        return _read_until(consumer, ends, time.monotonic() + timeout_s)
    finally:
        consumer.close()


def _read_until(consumer: Consumer, ends: dict[int, int], deadline: float) -> list[Found]:
    found: list[Found] = []
    unfinished = {partition for partition, end in ends.items() if end > 0}
    while unfinished:
        assert time.monotonic() < deadline, (
            f"partitions {sorted(unfinished)} were not read to their ends {ends} in time"
        )
        for message in consumer.consume(num_messages=10_000, timeout=0.2):
            error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
            assert error is None, f"reading back: {error}"
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            found.append(Found(partition, offset, Sent.from_value(value)))
            if offset >= ends[partition] - 1:
                unfinished.discard(partition)
    return found
