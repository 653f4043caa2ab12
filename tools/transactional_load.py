"""A load of transactions from a librdkafka producer: each must be in the log once and complete, or not at all."""

from __future__ import annotations

import threading
from collections import Counter

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tools.patience import PATIENCE_S

RECORDS = 5


class TransactionalLoad:
    """Commits transactions from a thread of its own until ``finish``. A transaction that fails is aborted."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.committed: set[int] = set()
        self.undecided: set[int] = set()  # Transactions whose commit was requested and failed, or is not answered yet.
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transactions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the transactional producer did not end"

    def _run(self) -> None:
        number = 0
        producer: Producer | None = None
        while not self._stopping.is_set():
            number += 1
            try:
                if producer is None:
                    producer = self._producer()
                producer.begin_transaction()
                for record in range(RECORDS):
                    producer.produce(self._topic, f"{number}/{record}".encode(), partition=record % 2)
                producer.flush(PATIENCE_S)
                self.undecided.add(number)
                producer.commit_transaction(PATIENCE_S)
                self.undecided.discard(number)
                self.committed.add(number)
            except KafkaException as error:
                producer = producer if producer is not None and self._aborted(producer, error) else None

    def _producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "transactional.id": "disk-campaign",
                "transaction.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        producer.init_transactions(PATIENCE_S)
        return producer

    @staticmethod
    def _aborted(producer: Producer, error: KafkaException) -> bool:
        """Abort the transaction. Return whether the producer can continue."""
        if not error.args[0].txn_requires_abort():
            return False
        try:
            producer.abort_transaction(PATIENCE_S)
        except KafkaException:
            return False
        return True

    def anomalies(self) -> list[str]:
        """Return the differences between what a read_committed consumer sees and the committed transactions."""
        seen = Counter(self._read())
        found = []
        for number in self.committed:
            counts = {seen[number, record] for record in range(RECORDS)}
            if counts != {1}:
                found.append(f"transaction {number} was committed; its records are there {sorted(counts)} times")
        for number in {number for number, _ in seen} - self.committed:
            counts = {seen[number, record] for record in range(RECORDS)}
            if number not in self.undecided or counts != {1}:
                found.append(f"transaction {number} was not committed; its records are there {sorted(counts)} times")
        return found

    def _read(self) -> list[tuple[int, int]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "transactions-read-back",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        try:
            consumer.assign([TopicPartition(self._topic, partition, 0) for partition in range(2)])
            found, unfinished = [], {0, 1}
            while unfinished:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, "nothing was read in time"
                if message.error() is not None:
                    unfinished.discard(message.partition() or 0)
                    continue
                number, _, record = (message.value() or b"").decode().partition("/")
                found.append((int(number), int(record)))
            return found
        finally:
            consumer.close()
