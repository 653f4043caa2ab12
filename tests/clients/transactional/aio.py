"""aiokafka. Its event loop belongs to one producer or reader and runs while that is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.clients.transactional import Fenced, Isolation, TransactionalProducer
from tools.patience import PATIENCE_S


class Aiokafka:
    name = "aiokafka"

    @contextmanager
    def producer(
        self, bootstrap_servers: str, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> Iterator[TransactionalProducer]:
        with asyncio.Runner() as runner:

            async def started() -> AIOKafkaProducer:
                producer = AIOKafkaProducer(
                    bootstrap_servers=bootstrap_servers,
                    transactional_id=transactional_id,
                    transaction_timeout_ms=timeout_ms,
                )
                await producer.start()
                return producer

            producer = runner.run(started())
            try:
                yield _Producer(runner, producer)
            finally:
                runner.run(producer.stop())

    def read(self, bootstrap_servers: str, topic: str, isolation: Isolation, *, until: bytes) -> list[bytes]:
        async def collect() -> list[bytes]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap_servers, group_id=None, isolation_level=isolation, fetch_max_wait_ms=100
            )
            await consumer.start()
            try:
                partition = TopicPartition(topic, 0)
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                found: list[bytes] = []
                async for message in consumer:
                    if message.value == until:
                        return found
                    found.append(message.value)
                raise AssertionError("the consumer ended")
            finally:
                await consumer.stop()

        return asyncio.run(asyncio.wait_for(collect(), PATIENCE_S))

    def committed(self, bootstrap_servers: str, group: str, topic: str) -> int | None:
        async def look_up() -> int | None:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=group, enable_auto_commit=False)
            await consumer.start()
            try:
                partition = TopicPartition(topic, 0)
                consumer.assign([partition])
                offset: int | None = await consumer.committed(partition)
                return offset
            finally:
                await consumer.stop()

        return asyncio.run(asyncio.wait_for(look_up(), PATIENCE_S))


class _Producer:
    def __init__(self, runner: asyncio.Runner, producer: AIOKafkaProducer) -> None:
        self._runner = runner
        self._producer = producer

    def begin(self) -> None:
        self._runner.run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        with _fencing():
            self._runner.run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._runner.run(self._producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        with _fencing():
            self._runner.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._runner.run(self._producer.abort_transaction())


@contextmanager
def _fencing() -> Iterator[None]:
    try:
        yield
    except ProducerFenced as error:
        raise Fenced(str(error)) from error
