"""A member with confluent-kafka (librdkafka)."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tools.librdkafka import insist, settings_of
from tools.members import report
from tools.members.role import RECORDS_PER_POLL, Role, asked_to_leave

_CALL_TIMEOUT_S = 20.0


def main() -> None:
    role, leave = Role.from_arguments(), asked_to_leave()
    producer = _producer(role) if role.is_transactional else None
    consumer = Consumer(settings_of(role.consumer_settings()))
    uncommitted: dict[int, int] = {}

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        report.revoked(one.partition for one in partitions)
        for one in partitions:
            uncommitted.pop(one.partition, None)

    consumer.subscribe(
        [role.topic],
        on_assign=lambda _, partitions: report.assigned(one.partition for one in partitions),
        on_revoke=revoked,
    )
    while not leave.is_set():
        messages = [message for message in consumer.consume(RECORDS_PER_POLL, 0.1) if _is_record(message)]
        if producer is None:
            if messages:
                report.read(_place(message) for message in messages)
                uncommitted |= _reached(messages)
            if uncommitted:
                _commit(consumer, role, uncommitted)
        elif messages and not _copied(producer, consumer, role, messages, _reached(messages)):
            _rewind(consumer)
    consumer.close()


def _producer(role: Role) -> Producer:
    producer = Producer(settings_of(role.producer_settings(), linger_ms=0))
    insist(lambda: producer.init_transactions(_CALL_TIMEOUT_S))
    return producer


def _commit(consumer: Consumer, role: Role, uncommitted: dict[int, int]) -> None:
    """Commit the offsets, and remove those that were committed from ``uncommitted``."""
    offsets = [TopicPartition(role.topic, partition, offset) for partition, offset in uncommitted.items()]
    try:
        done = consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        # The next owner of a partition continues from the offset committed before. A partition that this member keeps,
        # as with cooperative rebalancing, is not read again: its offset is committed after the next poll.
        report.error(error)
        return
    committed = [(one.partition, one.offset) for one in done or () if one.error is None]
    report.committed(committed)
    for partition, _ in committed:
        del uncommitted[partition]


def _copied(
    producer: Producer, consumer: Consumer, role: Role, messages: list[Message], reached: dict[int, int]
) -> bool:
    """Copy the records in one transaction. Return whether it was committed; otherwise it was aborted."""
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(role.target, message.value(), partition=_place(message)[0])
        offsets = [TopicPartition(role.topic, partition, offset) for partition, offset in reached.items()]
        member = consumer.consumer_group_metadata()
        insist(lambda: producer.send_offsets_to_transaction(offsets, member, _CALL_TIMEOUT_S))
        insist(lambda: producer.commit_transaction(_CALL_TIMEOUT_S))
    except KafkaException as error:
        report.error(error)
        if not error.args[0].txn_requires_abort():
            raise
        insist(lambda: producer.abort_transaction(_CALL_TIMEOUT_S))
        return False
    report.committed(reached.items())
    return True


def _rewind(consumer: Consumer) -> None:
    """Seek to the committed offsets. If a partition is revoked meanwhile, its next owner starts from there."""
    assigned = consumer.assignment()
    for one in insist(lambda: consumer.committed(assigned, timeout=_CALL_TIMEOUT_S)) if assigned else ():
        consumer.seek(TopicPartition(one.topic, one.partition, max(0, one.offset)))


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is not None:
        report.error(KafkaException(error))
        # Other errors are about connections and coordinators, which librdkafka handles itself.
        if error.fatal() or error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            raise KafkaException(error)
    return error is None


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def _reached(messages: list[Message]) -> dict[int, int]:
    return {partition: offset + 1 for partition, offset in map(_place, messages)}


if __name__ == "__main__":
    main()
