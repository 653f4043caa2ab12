"""A member with kafka-python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tools.members import report
from tools.members.role import RECORDS_PER_POLL, Role, asked_to_leave

_ASSIGNORS = {
    assignor.name: assignor
    for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor, CooperativeStickyAssignor)
}
_SETTINGS = {"reconnect_backoff_max_ms": 500}


class _RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        report.assigned(one.partition for one in assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        report.revoked(one.partition for one in revoked)


def main() -> None:
    role, leave = Role.from_arguments(), asked_to_leave()
    producer = _producer(role) if role.is_transactional else None
    assignors = {"partition_assignment_strategy": [_ASSIGNORS[role.protocol]]}
    consumer = KafkaConsumer(
        **{**role.consumer_settings(), **assignors, **_SETTINGS}, max_poll_records=RECORDS_PER_POLL
    )
    consumer.subscribe([role.topic], listener=_RebalanceListener())
    while not leave.is_set():
        # The membership is read before the records are polled, so that it can only be older than they are. Afterwards
        # it may be newer, because this library rejoins in a thread of its own: a zombie would commit under its new
        # generation.
        membership = consumer.group_metadata()
        polled = consumer.poll(timeout_ms=100)
        if not polled:
            continue
        offsets = {one: OffsetAndMetadata(records[-1].offset + 1, "", -1) for one, records in polled.items()}
        if producer is None:
            report.read((record.partition, record.offset) for records in polled.values() for record in records)
            _commit(consumer, offsets)
        elif membership.generation_id < 0:
            # The member had not joined before the poll. Without a member id and generation the coordinator could not
            # refuse the commit.
            _rewind(consumer)
        elif not _copied(producer, membership, role, polled, offsets):
            # The producer keeps the offsets of an aborted transaction and commits them with its next one (3.0.12),
            # which would overwrite offsets that the partitions' new owner has committed meanwhile.
            producer.close()
            producer = _producer(role)
            _rewind(consumer)
    consumer.close()
    if producer is not None:
        producer.close()


def _producer(role: Role) -> KafkaProducer:
    producer = KafkaProducer(**role.producer_settings(), linger_ms=0, **_SETTINGS)
    producer.init_transactions()
    return producer


def _commit(consumer: KafkaConsumer, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        report.error(error)  # The member that has these partitions now continues from the offsets committed before.
        return
    _report_committed(offsets)


def _copied(
    producer: KafkaProducer,
    membership: Any,
    role: Role,
    polled: dict[TopicPartition, Any],
    offsets: dict[TopicPartition, OffsetAndMetadata],
) -> bool:
    """Copy the records in one transaction. Return whether it was committed; otherwise it was aborted."""
    producer.begin_transaction()
    try:
        for partition, records in polled.items():
            for record in records:
                producer.send(role.target, record.value, partition=partition.partition)
        producer.send_offsets_to_transaction(offsets, membership)
        producer.commit_transaction()
    except ProducerFencedError:
        raise
    except KafkaError as error:
        report.error(error)
        producer.abort_transaction()
        return False
    _report_committed(offsets)
    return True


def _rewind(consumer: KafkaConsumer) -> None:
    for partition in consumer.assignment():
        consumer.seek(partition, consumer.committed(partition) or 0)


def _report_committed(offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
    report.committed((partition.partition, one.offset) for partition, one in offsets.items())


if __name__ == "__main__":
    try:
        main()
    except KafkaError as error:
        report.error(error)
        raise
