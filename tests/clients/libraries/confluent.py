"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.clients.libraries import CREATE_TIME, LOG_APPEND_TIME, Reader, Record, Since, Start, Stored, TooLarge
from tests.clients.libraries.sending import PLAIN, RECORD_BYTES_MAX, Sending
from tools.patience import PATIENCE_S


class Confluent:
    name = "confluent-kafka"

    def produce(
        self, bootstrap_servers: str, topic: str, records: Sequence[Record], how: Sending = PLAIN
    ) -> list[int | None]:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.codec": how.codec,
                "acks": how.acks,
                "enable.idempotence": how.idempotent,
                "message.max.bytes": RECORD_BYTES_MAX,
                "batch.num.messages": how.in_batches_of or 10_000,
                "linger.ms": 20 if how.in_batches_of is None else 1,
                "socket.timeout.ms": how.request_timeout_ms,
                "request.timeout.ms": how.request_timeout_ms,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
            }
        )
        answers: list[tuple[KafkaError | None, int | None] | None] = [None] * len(records)

        def answered(index: int, error: KafkaError | None, message: Message) -> None:
            answers[index] = (error, message.offset())

        for index, record in enumerate(records):
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=0,
                timestamp=record.timestamp_ms or 0,
                on_delivery=lambda error, message, index=index: answered(index, error, message),
            )
        unanswered = producer.flush(PATIENCE_S)
        assert unanswered == 0, f"{unanswered} records were not answered in time"
        return [_offset(answer, how.acks) for answer in answers]

    @contextmanager
    def reader(
        self, bootstrap_servers: str, topic: str, start: Start, *, fetch_max_wait_ms: int = 500
    ) -> Iterator[Reader]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "no-group-is-joined",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": fetch_max_wait_ms,
                "fetch.message.max.bytes": RECORD_BYTES_MAX,
                "fetch.max.bytes": RECORD_BYTES_MAX,
                "receive.message.max.bytes": RECORD_BYTES_MAX + 1_000_000,
                "socket.timeout.ms": fetch_max_wait_ms + 60_000,
            }
        )
        try:
            # A partition whose leader is not known yet is asked for again only after half a second.
            consumer.list_topics(topic, timeout=PATIENCE_S)
            consumer.assign([TopicPartition(topic, 0, _start_offset(consumer, topic, start))])
            if start == "latest":
                _wait_for_end(consumer)
            yield _ConfluentReader(consumer)
        finally:
            consumer.close()


class _ConfluentReader:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def read(self, count: int, timeout_s: float = PATIENCE_S) -> list[Stored]:
        deadline = time.monotonic() + timeout_s
        found: list[Stored] = []
        while len(found) < count and time.monotonic() < deadline:
            for message in self._consumer.consume(count - len(found), timeout=0.05):
                error = message.error()
                if error is None:
                    found.append(_stored(message))
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
        return found


def _offset(answer: tuple[KafkaError | None, int | None] | None, acks: int) -> int | None:
    assert answer is not None
    error, offset = answer
    if error is not None:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise TooLarge(str(error))
        raise KafkaException(error)
    return offset if acks != 0 else None


def _start_offset(consumer: Consumer, topic: str, start: Start) -> int:
    match start:
        case "earliest":
            return int(OFFSET_BEGINNING)
        case "latest":
            return int(OFFSET_END)
        case Since(timestamp_ms):
            (answer,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=PATIENCE_S)
            return answer.offset
        case offset:
            return offset


def _wait_for_end(consumer: Consumer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        error = message.error() if message is not None else None
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return
    raise TimeoutError("the consumer did not reach the end of the partition in time")


def _stored(message: Message) -> Stored:
    kind, timestamp_ms = message.timestamp()
    timestamp_type = LOG_APPEND_TIME if kind == TIMESTAMP_LOG_APPEND_TIME else CREATE_TIME
    record = Record(message.value(), message.key(), tuple(message.headers() or ()), timestamp_ms)
    return Stored(message.offset(), timestamp_type, record)
