"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import MessageSizeTooLargeError

from tests.clients.libraries import Reader, Record, Since, Start, Stored, TooLarge
from tests.clients.libraries.python_messages import stored
from tests.clients.libraries.sending import PLAIN, Sending, python_consumer_settings, python_producer_settings
from tools.patience import PATIENCE_S


class KafkaPython:
    name = "kafka-python"

    def produce(
        self, bootstrap_servers: str, topic: str, records: Sequence[Record], how: Sending = PLAIN
    ) -> list[int | None]:
        # This client has no limit on records per batch, only on bytes: a tiny one closes a batch after each record.
        batch_size = 16_384 if how.in_batches_of is None else 1
        producer = KafkaProducer(
            **python_producer_settings(bootstrap_servers, how),
            batch_size=batch_size,
            reconnect_backoff_max_ms=200,
        )
        try:
            futures = [
                producer.send(topic, record.value, record.key, list(record.headers), 0, record.timestamp_ms)
                for record in records
            ]
            offsets = [future.get(timeout=PATIENCE_S).offset for future in futures]
        except MessageSizeTooLargeError as error:
            raise TooLarge(str(error)) from error
        finally:
            producer.close(timeout=PATIENCE_S)
        return [offset if how.acks != 0 else None for offset in offsets]

    @contextmanager
    def reader(
        self, bootstrap_servers: str, topic: str, start: Start, *, fetch_max_wait_ms: int = 500
    ) -> Iterator[Reader]:
        consumer = KafkaConsumer(**python_consumer_settings(bootstrap_servers, fetch_max_wait_ms))
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            _seek(consumer, partition, start)
            yield _KafkaPythonReader(consumer)
        finally:
            consumer.close()


class _KafkaPythonReader:
    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    def read(self, count: int, timeout_s: float = PATIENCE_S) -> list[Stored]:
        deadline = time.monotonic() + timeout_s
        found: list[Stored] = []
        while len(found) < count and (left_s := deadline - time.monotonic()) > 0:
            polled = self._consumer.poll(timeout_ms=int(left_s * 1000), max_records=count - len(found))
            found += [stored(message) for messages in polled.values() for message in messages]
        return found


def _seek(consumer: KafkaConsumer, partition: TopicPartition, start: Start) -> None:
    match start:
        case "earliest":
            consumer.seek_to_beginning(partition)
        case "latest":
            consumer.seek_to_end(partition)
            consumer.position(partition)  # Resolved now, not when the first record is asked for.
        case Since(timestamp_ms):
            answer = consumer.offsets_for_times({partition: timestamp_ms})[partition]
            if answer is not None:
                consumer.seek(partition, answer.offset)
            else:
                _seek(consumer, partition, "latest")
        case offset:
            consumer.seek(partition, offset)
