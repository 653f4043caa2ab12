"""A copier with Semel's client: it repeats calls that time out, and aborts after abortable errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from semel import Consumer, ConsumerRecord, Producer
from semel.errors import AbortableError, TimedOut
from tools.copiers.task import RECORDS_PER_TRANSACTION, Task, tell
from tools.single_requests import committed_offsets


async def copy_all(task: Task) -> None:
    producer = Producer(**task.producer_settings())
    await _until_told(producer.init)
    positions = committed_offsets(task.bootstrap_servers, task.group, task.source, len(task.ends))
    async with Consumer(bootstrap_servers=task.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([(task.source, partition) for partition in range(len(task.ends))])
        _rewind(consumer, task, positions)
        while positions != list(task.ends):
            records = await consumer.poll(200, max_records=RECORDS_PER_TRANSACTION)
            if not records:
                continue
            try:
                positions = await _copy(producer, task, positions, records)
            except AbortableError:
                await _until_told(producer.abort)
                _rewind(consumer, task, positions)
            else:
                tell(positions)
    await producer.close()


async def _copy(producer: Producer, task: Task, positions: list[int], records: list[ConsumerRecord]) -> list[int]:
    """Copy the records in one transaction. Return the new positions."""
    reached = positions[:]
    producer.begin()
    for record in records:
        producer.send(task.target, record.value, partition=record.partition)
        reached[record.partition] = record.offset + 1
    offsets = {(task.source, record.partition): reached[record.partition] for record in records}
    await _until_told(lambda: producer.send_offsets(offsets, task.group))
    await _until_told(producer.commit)
    return reached


def _rewind(consumer: Consumer, task: Task, positions: list[int]) -> None:
    # No other process copies for this group, so ``positions`` are the offsets that were committed last.
    for partition, position in enumerate(positions):
        consumer.seek((task.source, partition), position)


async def _until_told(call: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await call()
        except TimedOut:
            continue


if __name__ == "__main__":
    asyncio.run(copy_all(Task.from_arguments()))
