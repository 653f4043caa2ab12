"""A member with Semel's client."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from semel import Consumer, ConsumerRecord, Producer, TopicPartition
from semel.errors import AbortableError, SemelError
from tools.members import report
from tools.members.role import RECORDS_PER_POLL, Role


class _RebalanceListener:
    def __init__(self) -> None:
        self.uncommitted: dict[int, int] = {}

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        report.assigned(one.partition for one in partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        report.revoked(one.partition for one in partitions)
        for one in partitions:
            self.uncommitted.pop(one.partition, None)


async def main(role: Role) -> None:
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    consumer = Consumer(**role.consumer_settings())
    if not role.is_transactional:
        async with consumer:
            await _read(consumer, role, leave)
        return
    async with Producer(**role.producer_settings()) as producer, consumer:
        await _copy(consumer, producer, role, leave)


async def _read(consumer: Consumer, role: Role, leave: asyncio.Event) -> None:
    listener = _RebalanceListener()
    consumer.subscribe([role.topic], listener=listener)
    while not leave.is_set():
        records = await consumer.poll(100, max_records=RECORDS_PER_POLL)
        if records:
            report.read((record.partition, record.offset) for record in records)
            listener.uncommitted |= _reached(records)
        if not listener.uncommitted:
            continue
        try:
            await consumer.commit()
        except SemelError as error:
            # The next owner of a partition continues from the offset committed before. A partition that this member
            # keeps, as with cooperative rebalancing, is not read again: its offset is committed after the next poll.
            report.error(error)
        else:
            report.committed(listener.uncommitted.items())
            listener.uncommitted.clear()


async def _copy(consumer: Consumer, producer: Producer, role: Role, leave: asyncio.Event) -> None:
    consumer.subscribe([role.topic], listener=_RebalanceListener())
    while not leave.is_set():
        records = await consumer.poll(100, max_records=RECORDS_PER_POLL)
        if not records:
            continue
        try:
            async with producer.transaction(consumer=consumer):
                for record in records:
                    producer.send(role.target, record.value, partition=record.partition)
        except AbortableError as error:
            report.error(error)
        else:
            report.committed(_reached(records).items())


def _reached(records: Sequence[ConsumerRecord]) -> dict[int, int]:
    return {record.partition: record.offset + 1 for record in records}


if __name__ == "__main__":
    try:
        asyncio.run(main(Role.from_arguments()))
    except SemelError as error:
        report.error(error)
        raise
