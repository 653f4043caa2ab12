"""The same records out through four clients: each sends for some seconds, until all is acknowledged.

100-byte values without keys, to 4 partitions in turn, 500 at a time; acks=all, idempotent, batches of 256 KB. A client
that has a way to be told to wait when its buffer is full is told so, in its own words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
import pyarrow as pa

import semel
from benchmarks.event_loop import on_uvloop
from benchmarks.stopwatch import Stopwatch, Taken
from benchmarks.topics import QUIET

PARTITIONS = 4
VALUE = bytes(100)
BATCH_BYTES = 256 * 1024
# Enough for all batches under way, and small enough that the same memory is used again while it is warm.
BUFFER_BYTES = 8 * 2**20
AT_ONCE = 500
ROWS_AT_ONCE = 50_000


class Produce(Protocol):
    def __call__(self, servers: str, topic: str, seconds: float) -> Taken: ...


def _semel(servers: str) -> semel.Producer:
    return semel.Producer(bootstrap_servers=servers, batch_size=BATCH_BYTES, buffer_memory=BUFFER_BYTES)


def semel_send(servers: str, topic: str, seconds: float) -> Taken:
    async def load() -> Taken:
        async with _semel(servers) as producer:
            await producer.send(topic, VALUE, partition=0)

            async def some(partition: int) -> int:
                send = producer.send
                for _ in range(AT_ONCE):
                    send(topic, VALUE, partition=partition)
                await producer.drain()
                await asyncio.sleep(0)  # As an application that has other things to do would.
                return AT_ONCE

            return await _for(seconds, some, producer.flush)

    return on_uvloop(load())


def semel_send_many(servers: str, topic: str, seconds: float) -> Taken:
    values = [VALUE] * ROWS_AT_ONCE
    return _semel_bulk(servers, topic, seconds, lambda producer, _: producer.send_many(topic, values))


def semel_send_arrow(servers: str, topic: str, seconds: float) -> Taken:
    table = pa.table({"value": [VALUE] * ROWS_AT_ONCE})
    return _semel_bulk(servers, topic, seconds, lambda producer, _: producer.send_arrow(topic, table))


def _semel_bulk(
    servers: str, topic: str, seconds: float, send: Callable[[semel.Producer, int], Awaitable[Any]]
) -> Taken:
    async def load() -> Taken:
        async with _semel(servers) as producer:
            await producer.send(topic, VALUE, partition=0)
            await producer.send_many(topic, [])  # Brings pyarrow.

            async def some(partition: int) -> int:
                send(producer, partition)
                await producer.drain()
                return ROWS_AT_ONCE

            return await _for(seconds, some, producer.flush)

    return on_uvloop(load())


def aiokafka_send(servers: str, topic: str, seconds: float) -> Taken:
    async def load() -> Taken:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, acks="all", enable_idempotence=True, max_batch_size=BATCH_BYTES, linger_ms=5
        )
        await producer.start()
        try:
            await producer.send_and_wait(topic, VALUE, partition=0)

            async def some(partition: int) -> int:
                send = producer.send
                for _ in range(AT_ONCE):
                    await send(topic, VALUE, partition=partition)  # Waits while its batch is full.
                return AT_ONCE

            return await _for(seconds, some, producer.flush)
        finally:
            await producer.stop()

    return on_uvloop(load())


def kafka_python_send(servers: str, topic: str, seconds: float) -> Taken:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", batch_size=BATCH_BYTES, linger_ms=5)
    try:
        producer.send(topic, VALUE, partition=0).get(30)
        sent, partition, watch = 0, 0, Stopwatch()
        while watch.elapsed_s() < seconds:
            for _ in range(AT_ONCE):
                producer.send(topic, VALUE, partition=partition)
            sent, partition = sent + AT_ONCE, (partition + 1) % PARTITIONS
        producer.flush(120)
        return watch.taken(sent)
    finally:
        producer.close(10)


def confluent_produce(servers: str, topic: str, seconds: float) -> Taken:
    def some(producer: confluent_kafka.Producer, partition: int) -> int:
        produce, sent = producer.produce, 0
        while sent < AT_ONCE:
            try:
                produce(topic, VALUE, None, partition)
                sent += 1
            except BufferError:
                producer.poll(0.002)
        producer.poll(0)
        return sent

    return _confluent(servers, topic, seconds, some)


def confluent_produce_batch(servers: str, topic: str, seconds: float) -> Taken:
    messages = [{"value": VALUE} for _ in range(AT_ONCE)]

    def some(producer: confluent_kafka.Producer, partition: int) -> int:
        queued = producer.produce_batch(topic, messages, partition)
        if queued < AT_ONCE:
            producer.poll(0.002)
            for message in messages:
                message.pop("_error", None)
        return int(queued)

    return _confluent(servers, topic, seconds, some)


def _confluent(servers: str, topic: str, seconds: float, some: Callable[[confluent_kafka.Producer, int], int]) -> Taken:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "batch.size": BATCH_BYTES,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": BUFFER_BYTES // 1024,
            "delivery.report.only.error": True,
            **QUIET,
        }
    )
    producer.produce(topic, VALUE, None, 0)
    producer.flush(30)
    sent, partition, watch = 0, 0, Stopwatch()
    while watch.elapsed_s() < seconds:
        sent += some(producer, partition)
        partition = (partition + 1) % PARTITIONS
    unanswered = producer.flush(120)
    assert unanswered == 0, f"{unanswered} records were not acknowledged within two minutes"
    return watch.taken(sent)


async def _for(seconds: float, some: Callable[[int], Awaitable[int]], flush: Callable[[], Awaitable[None]]) -> Taken:
    sent, partition, watch = 0, 0, Stopwatch()
    while watch.elapsed_s() < seconds:
        sent += await some(partition)
        partition = (partition + 1) % PARTITIONS
    await flush()
    return watch.taken(sent)


PRODUCERS: dict[str, Produce] = {
    "semel send": semel_send,
    "aiokafka send": aiokafka_send,
    "kafka-python send": kafka_python_send,
    "confluent-kafka produce": confluent_produce,
    "semel send_many": semel_send_many,
    "semel send_arrow": semel_send_arrow,
    "confluent-kafka produce_batch": confluent_produce_batch,
}
