"""A copier with kafka-python: after an error it aborts the transaction; if that is not possible, it gives up."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.group import ConsumerGroupMetadata
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tools.copiers.task import RECORDS_PER_TRANSACTION, Task, tell


def main() -> None:
    task = Task.from_arguments()
    producer = KafkaProducer(**task.producer_settings(), linger_ms=0)
    consumer = KafkaConsumer(
        **task.consumer_settings(), auto_offset_reset="none", max_poll_records=RECORDS_PER_TRANSACTION
    )
    producer.init_transactions()
    partitions = [TopicPartition(task.source, partition) for partition in range(len(task.ends))]
    consumer.assign(partitions)
    positions = _rewind(consumer, partitions)
    while positions != list(task.ends):
        polled = consumer.poll(timeout_ms=200)
        if not polled:
            continue
        try:
            positions = _copy(producer, task, positions, polled)
        except ProducerFencedError:
            raise
        except KafkaError:
            producer.abort_transaction()
            positions = _rewind(consumer, partitions)
        else:
            tell(positions)
    consumer.close()
    producer.close()


def _copy(producer: KafkaProducer, task: Task, positions: list[int], polled: dict[TopicPartition, Any]) -> list[int]:
    """Copy the records in one transaction. Return the new positions."""
    reached = positions[:]
    producer.begin_transaction()
    for partition, messages in polled.items():
        for message in messages:
            producer.send(task.target, message.value, partition=partition.partition)
            reached[partition.partition] = message.offset + 1
    offsets = {partition: OffsetAndMetadata(reached[partition.partition], "", -1) for partition in polled}
    producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(task.group))
    producer.commit_transaction()
    return reached


def _rewind(consumer: KafkaConsumer, partitions: list[TopicPartition]) -> list[int]:
    positions = [consumer.committed(partition) or 0 for partition in partitions]
    for partition, position in zip(partitions, positions, strict=True):
        consumer.seek(partition, position)
    return positions


if __name__ == "__main__":
    main()
