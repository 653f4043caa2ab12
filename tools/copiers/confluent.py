"""A copier with confluent-kafka (librdkafka): it retries after retriable errors, and otherwise aborts or gives up."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tools.copiers.task import RECORDS_PER_TRANSACTION, Task, tell
from tools.librdkafka import insist, settings_of

_CALL_TIMEOUT_S = 30.0


def main() -> None:
    task = Task.from_arguments()
    producer = Producer(settings_of(task.producer_settings(), linger_ms=0))
    consumer = Consumer(settings_of(task.consumer_settings(), auto_offset_reset="error"))
    insist(lambda: producer.init_transactions(_CALL_TIMEOUT_S))
    positions = _committed(consumer, task)
    _assign(consumer, task, positions)
    while positions != list(task.ends):
        messages = [message for message in consumer.consume(RECORDS_PER_TRANSACTION, 0.2) if message.error() is None]
        if not messages:
            continue
        try:
            reached = _copy(producer, consumer, task, positions, messages)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            insist(lambda: producer.abort_transaction(_CALL_TIMEOUT_S))
            positions = _committed(consumer, task)
            _assign(consumer, task, positions)
        else:
            positions = reached
            tell(positions)
    consumer.close()


def _copy(
    producer: Producer, consumer: Consumer, task: Task, positions: list[int], messages: list[Message]
) -> list[int]:
    """Copy the records in one transaction. Return the new positions."""
    reached = positions[:]
    producer.begin_transaction()
    for message in messages:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        producer.produce(task.target, message.value(), partition=partition)
        reached[partition] = offset + 1
    offsets = [TopicPartition(task.source, partition, offset) for partition, offset in enumerate(reached)]
    member = consumer.consumer_group_metadata()
    insist(lambda: producer.send_offsets_to_transaction(offsets, member, _CALL_TIMEOUT_S))
    insist(lambda: producer.commit_transaction(_CALL_TIMEOUT_S))
    return reached


def _committed(consumer: Consumer, task: Task) -> list[int]:
    asked = [TopicPartition(task.source, partition) for partition in range(len(task.ends))]
    found = insist(lambda: consumer.committed(asked, timeout=_CALL_TIMEOUT_S))
    return [max(0, partition.offset) for partition in found]


def _assign(consumer: Consumer, task: Task, positions: list[int]) -> None:
    consumer.assign([TopicPartition(task.source, partition, offset) for partition, offset in enumerate(positions)])


if __name__ == "__main__":
    main()
