"""The same records in through four clients: each reads a topic of 4 partitions from the beginning, up to its end.

The clock starts with the first records that come: connecting is not what is measured. All read without a group, up to
10,000 records at a time, and look at nothing but their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka

import semel
from benchmarks.clients_producing import PARTITIONS
from benchmarks.event_loop import on_uvloop
from benchmarks.stopwatch import Stopwatch, Taken
from benchmarks.topics import QUIET

AT_ONCE = 10_000


class Consume(Protocol):
    def __call__(self, servers: str, topic: str, count: int) -> Taken: ...


def semel_poll(servers: str, topic: str, count: int) -> Taken:
    return _semel(servers, topic, count, lambda consumer: consumer.poll(1_000, max_records=AT_ONCE))


def semel_poll_arrow(servers: str, topic: str, count: int) -> Taken:
    return _semel(servers, topic, count, lambda consumer: consumer.poll_arrow(1_000))


def semel_iterate(servers: str, topic: str, count: int) -> Taken:
    async def load() -> Taken:
        async with semel.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, partition) for partition in range(PARTITIONS)])
            await anext(consumer)
            read, watch = 0, Stopwatch()
            async for _ in consumer:
                read += 1
                if read == count - 1:
                    break
            return watch.taken(read)

    return on_uvloop(load())


def _semel(servers: str, topic: str, count: int, poll: Callable[[semel.Consumer], Awaitable[Any]]) -> Taken:
    async def load() -> Taken:
        async with semel.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, partition) for partition in range(PARTITIONS)])

            async def some() -> int:
                return len(await poll(consumer))

            return await _until(count, some)

    return on_uvloop(load())


def aiokafka_getmany(servers: str, topic: str, count: int) -> Taken:
    async def load() -> Taken:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None)
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(topic, partition) for partition in range(PARTITIONS)])

            async def some() -> int:
                found = await consumer.getmany(timeout_ms=1_000, max_records=AT_ONCE)
                return sum(map(len, found.values()))

            return await _until(count, some)
        finally:
            await consumer.stop()

    return on_uvloop(load())


def kafka_python_poll(servers: str, topic: str, count: int) -> Taken:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None, max_poll_records=AT_ONCE
    )
    try:
        consumer.assign([kafka.TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        return _until_now(count, lambda: sum(map(len, consumer.poll(timeout_ms=1_000).values())))
    finally:
        consumer.close()


def confluent_consume(servers: str, topic: str, count: int) -> Taken:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 1,
            **QUIET,
        }
    )
    try:
        # librdkafka waits half a second before it asks again for a leader that it does not know yet.
        consumer.list_topics(topic, timeout=10)
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        return _until_now(count, lambda: len(consumer.consume(num_messages=AT_ONCE, timeout=0.1)))
    finally:
        consumer.close()


async def _until(count: int, some: Callable[[], Awaitable[int]]) -> Taken:
    first = 0
    while not first:
        first = await some()
    read, watch = first, Stopwatch()
    while read < count:
        read += await some()
        assert watch.elapsed_s() < 120, f"{read} of {count} records after two minutes"
    return watch.taken(read - first)


def _until_now(count: int, some: Callable[[], int]) -> Taken:
    async def later() -> int:
        return some()

    return asyncio.run(_until(count, later))


CONSUMERS: dict[str, Consume] = {
    "semel poll": semel_poll,
    "semel async for": semel_iterate,
    "aiokafka getmany": aiokafka_getmany,
    "kafka-python poll": kafka_python_poll,
    "confluent-kafka consume": confluent_consume,
    "semel poll_arrow": semel_poll_arrow,
}
