"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.clients.transactional import Fenced, Isolation, TransactionalProducer
from tools.patience import PATIENCE_S

FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


class Confluent:
    name = "confluent-kafka"

    @contextmanager
    def producer(
        self, bootstrap_servers: str, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> Iterator[TransactionalProducer]:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
                "linger.ms": 0,
                # The tests leave transactions open on purpose and stop the broker before the producer.
                "log_level": 0,
            }
        )
        producer.init_transactions(PATIENCE_S)
        yield _Producer(bootstrap_servers, producer)

    def read(self, bootstrap_servers: str, topic: str, isolation: Isolation, *, until: bytes) -> list[bytes]:
        consumer = _consumer(bootstrap_servers, "no-group-is-joined", isolation)
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            found: list[bytes] = []
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                for message in consumer.consume(100, timeout=0.1):
                    _raise_if_error(message.error())
                    value = message.value()
                    assert isinstance(value, bytes)
                    if value == until:
                        return found
                    found.append(value)
            raise TimeoutError(f"{until!r} did not come; {found} did")
        finally:
            consumer.close()

    def committed(self, bootstrap_servers: str, group: str, topic: str) -> int | None:
        consumer = _consumer(bootstrap_servers, group, "read_committed")
        try:
            (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
            _raise_if_error(found.error)
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()


class _Producer:
    def __init__(self, bootstrap_servers: str, producer: Producer) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._producer = producer

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        answers: list[KafkaError | None] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            answers.append(error)

        with _fencing():
            self._producer.produce(topic, value, partition=partition, on_delivery=answered)
            self._producer.flush(PATIENCE_S)
            (error,) = answers
            if error is not None:
                raise KafkaException(error)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = _consumer(self._bootstrap_servers, group, "read_committed")
        try:
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, PATIENCE_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        with _fencing():
            self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)


@contextmanager
def _fencing() -> Iterator[None]:
    try:
        yield
    except (KafkaException, SystemError) as raised:
        # A fatal error is raised out of whatever call is running: on top of a callback's result it is a SystemError.
        error = raised.__cause__ if isinstance(raised, SystemError) else raised
        if isinstance(error, KafkaException) and error.args[0].code() in FENCED:
            raise Fenced(str(error)) from error
        raise


def _consumer(bootstrap_servers: str, group: str, isolation: Isolation) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 100,
        }
    )


def _raise_if_error(error: KafkaError | None) -> None:
    if error is not None:
        raise KafkaException(error)
