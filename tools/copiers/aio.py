"""A copier with aiokafka: after an error it aborts the transaction; if that is not possible, it gives up."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from tools.copiers.task import RECORDS_PER_TRANSACTION, Task, tell


async def copy_all(task: Task) -> None:
    producer = AIOKafkaProducer(**task.producer_settings())
    consumer = AIOKafkaConsumer(
        **task.consumer_settings(), auto_offset_reset="none", max_poll_records=RECORDS_PER_TRANSACTION
    )
    async with producer, consumer:
        partitions = [TopicPartition(task.source, partition) for partition in range(len(task.ends))]
        consumer.assign(partitions)
        positions = await _rewind(consumer, partitions)
        while positions != list(task.ends):
            polled = await consumer.getmany(timeout_ms=200)
            if not polled:
                continue
            try:
                positions = await _copy(producer, task, positions, polled)
            except ProducerFenced:
                raise
            except KafkaError:
                positions = await _rewind(consumer, partitions)
            else:
                tell(positions)


async def _copy(
    producer: AIOKafkaProducer, task: Task, positions: list[int], polled: dict[TopicPartition, Any]
) -> list[int]:
    """Copy the records in one transaction, aborted after any error. Return the new positions."""
    reached = positions[:]
    async with producer.transaction():
        for partition, messages in polled.items():
            for message in messages:
                await producer.send(task.target, message.value, partition=partition.partition)
                reached[partition.partition] = message.offset + 1
        offsets = {partition: reached[partition.partition] for partition in polled}
        await producer.send_offsets_to_transaction(offsets, task.group)
    return reached


async def _rewind(consumer: AIOKafkaConsumer, partitions: list[TopicPartition]) -> list[int]:
    positions = [await consumer.committed(partition) or 0 for partition in partitions]
    for partition, position in zip(partitions, positions, strict=True):
        consumer.seek(partition, position)
    return positions


if __name__ == "__main__":
    asyncio.run(copy_all(Task.from_arguments()))
