"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.group import ConsumerGroupMetadata
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.clients.transactional import Fenced, Isolation, TransactionalProducer
from tools.patience import PATIENCE_S


class KafkaPython:
    name = "kafka-python"

    @contextmanager
    def producer(
        self, bootstrap_servers: str, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> Iterator[TransactionalProducer]:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=0,
        )
        try:
            producer.init_transactions()
            yield _Producer(producer)
        finally:
            producer.close(timeout=1)

    def read(self, bootstrap_servers: str, topic: str, isolation: Isolation, *, until: bytes) -> list[bytes]:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers, group_id=None, isolation_level=isolation, fetch_max_wait_ms=100
        )
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            found: list[bytes] = []
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                for messages in consumer.poll(timeout_ms=100).values():
                    for message in messages:
                        if message.value == until:
                            return found
                        found.append(message.value)
            raise TimeoutError(f"{until!r} did not come; {found} did")
        finally:
            consumer.close()

    def committed(self, bootstrap_servers: str, group: str, topic: str) -> int | None:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=group, enable_auto_commit=False)
        try:
            offset: int | None = consumer.committed(TopicPartition(topic, 0))
            return offset
        finally:
            consumer.close()


class _Producer:
    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        with _fencing():
            self._producer.send(topic, value, partition=partition).get(timeout=PATIENCE_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(group))

    def commit(self) -> None:
        with _fencing():
            self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()


@contextmanager
def _fencing() -> Iterator[None]:
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        raise Fenced(str(error)) from error
