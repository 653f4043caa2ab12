"""aiokafka. Its event loop belongs to one producer or reader and runs while that is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from tests.clients.libraries import Reader, Record, Since, Start, Stored, TooLarge
from tests.clients.libraries.python_messages import stored
from tests.clients.libraries.sending import (
    PLAIN,
    RECORD_BYTES_MAX,
    Sending,
    python_consumer_settings,
    python_producer_settings,
)
from tools.patience import PATIENCE_S


class Aiokafka:
    name = "aiokafka"

    def produce(
        self, bootstrap_servers: str, topic: str, records: Sequence[Record], how: Sending = PLAIN
    ) -> list[int | None]:
        async def send_all() -> list[int | None]:
            producer = AIOKafkaProducer(
                **python_producer_settings(bootstrap_servers, how),
                # This client has no limit on records per batch, only on bytes, and a record must fit into one.
                max_batch_size=RECORD_BYTES_MAX if how.in_batches_of is None else 200,
            )
            await producer.start()
            try:
                futures = [await _accepted(producer, topic, record) for record in records]
                metadata = [await asyncio.wait_for(future, PATIENCE_S) for future in futures]
            except MessageSizeTooLargeError as error:
                raise TooLarge(str(error)) from error
            finally:
                await producer.stop()
            return [answer.offset if answer is not None and how.acks != 0 else None for answer in metadata]

        return asyncio.run(send_all())

    @contextmanager
    def reader(
        self, bootstrap_servers: str, topic: str, start: Start, *, fetch_max_wait_ms: int = 500
    ) -> Iterator[Reader]:
        async def open_at_start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(**python_consumer_settings(bootstrap_servers, fetch_max_wait_ms))
            await consumer.start()
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await _seek(consumer, partition, start)
            return consumer

        with asyncio.Runner() as runner:
            consumer = runner.run(open_at_start())
            try:
                yield _AiokafkaReader(runner, consumer)
            finally:
                runner.run(consumer.stop())


class _AiokafkaReader:
    def __init__(self, runner: asyncio.Runner, consumer: AIOKafkaConsumer) -> None:
        self._runner = runner
        self._consumer = consumer

    def read(self, count: int, timeout_s: float = PATIENCE_S) -> list[Stored]:
        async def collect() -> list[Stored]:
            found: list[Stored] = []
            deadline = asyncio.get_running_loop().time() + timeout_s
            while len(found) < count and (left_s := deadline - asyncio.get_running_loop().time()) > 0:
                polled = await self._consumer.getmany(timeout_ms=int(left_s * 1000), max_records=count - len(found))
                found += [stored(message) for messages in polled.values() for message in messages]
            return found

        return self._runner.run(collect())


async def _accepted(producer: AIOKafkaProducer, topic: str, record: Record) -> asyncio.Future[Any]:
    """The future of a record that the producer took. One that it had no room for in time was not taken: ask again."""
    while True:
        try:
            return await producer.send(
                topic, record.value, record.key, 0, record.timestamp_ms, list(record.headers) or None
            )
        except KafkaTimeoutError:
            continue


async def _seek(consumer: AIOKafkaConsumer, partition: TopicPartition, start: Start) -> None:
    match start:
        case "earliest":
            await consumer.seek_to_beginning(partition)
        case "latest":
            await consumer.seek_to_end(partition)
            await consumer.position(partition)  # Resolved now, not when the first record is asked for.
        case Since(timestamp_ms):
            answer = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            if answer is None:
                await _seek(consumer, partition, "latest")
            else:
                consumer.seek(partition, answer.offset)
        case offset:
            consumer.seek(partition, offset)
