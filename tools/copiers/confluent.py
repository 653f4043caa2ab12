"""A copier on confluent-kafka, which is librdkafka: retriable calls are called again, the rest aborted or given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tools.copiers.task import RECORDS_PER_TRANSACTION, Task, tell

_CALL_TIMEOUT_S = 30.0

_SETTINGS = {
    "log_level": 3,
    "reconnect.backoff.max.ms": 500,
    # Its default, "rebootstrap", forgets the one broker there is while it is down, and after that the group's
    # coordinator is never found again: every send_offsets_to_transaction hangs (2.16.1, on Apache Kafka too).
    "metadata.recovery.strategy": "none",
}


def main() -> None:
    task = Task.from_arguments()
    settings = {"bootstrap.servers": task.bootstrap_servers, **_SETTINGS}
    producer = Producer(
        {
            **settings,
            "transactional.id": task.transactional_id,
            "transaction.timeout.ms": task.transaction_timeout_ms,
            "linger.ms": 0,
        }
    )
    consumer = Consumer(
        {
            **settings,
            "group.id": task.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    _insist(lambda: producer.init_transactions(_CALL_TIMEOUT_S))
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
            _insist(lambda: producer.abort_transaction(_CALL_TIMEOUT_S))
            positions = _committed(consumer, task)
            _assign(consumer, task, positions)
        else:
            positions = reached
            tell(positions)
    consumer.close()


def _copy(
    producer: Producer, consumer: Consumer, task: Task, positions: list[int], messages: list[Message]
) -> list[int]:
    """One transaction. Returns how far it went."""
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
    _insist(lambda: producer.send_offsets_to_transaction(offsets, member, _CALL_TIMEOUT_S))
    _insist(lambda: producer.commit_transaction(_CALL_TIMEOUT_S))
    return reached


def _committed(consumer: Consumer, task: Task) -> list[int]:
    asked = [TopicPartition(task.source, partition) for partition in range(len(task.ends))]
    found = _insist(lambda: consumer.committed(asked, timeout=_CALL_TIMEOUT_S))
    return [max(0, partition.offset) for partition in found]


def _assign(consumer: Consumer, task: Task, positions: list[int]) -> None:
    consumer.assign([TopicPartition(task.source, partition, offset) for partition, offset in enumerate(positions)])


def _insist(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


if __name__ == "__main__":
    main()
