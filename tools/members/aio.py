"""A member with aiokafka. It only reads, because aiokafka sends no generation with the offsets of a transaction."""

from __future__ import annotations

import asyncio
import signal

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import IllegalStateError, KafkaError

from tools.members import report
from tools.members.role import RECORDS_PER_POLL, Role

_ASSIGNORS = {assignor.name: assignor for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor)}


class _RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        report.assigned(one.partition for one in assigned)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        report.revoked(one.partition for one in revoked)


async def main(role: Role) -> None:
    assert not role.is_transactional, "aiokafka's send_offsets_to_transaction knows no generation"
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    assignors = {"partition_assignment_strategy": [_ASSIGNORS[role.protocol]]}
    consumer = AIOKafkaConsumer(**{**role.consumer_settings(), **assignors}, max_poll_records=RECORDS_PER_POLL)
    consumer.subscribe([role.topic], listener=_RebalanceListener())
    async with consumer:
        while not leave.is_set():
            polled = await consumer.getmany(timeout_ms=100)
            if polled:
                report.read((record.partition, record.offset) for records in polled.values() for record in records)
                await _commit(consumer, {one: records[-1].offset + 1 for one, records in polled.items()})


async def _commit(consumer: AIOKafkaConsumer, offsets: dict[TopicPartition, int]) -> None:
    try:
        await consumer.commit(offsets)
    except (KafkaError, IllegalStateError) as error:
        report.error(error)  # The member that has these partitions now continues from the offsets committed before.
        return
    report.committed((partition.partition, offset) for partition, offset in offsets.items())


if __name__ == "__main__":
    try:
        asyncio.run(main(Role.from_arguments()))
    except KafkaError as error:
        report.error(error)
        raise
