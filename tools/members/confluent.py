"""A member on confluent-kafka, which is librdkafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tools.members.role import (
    CONSUMER_PROTOCOL,
    HEARTBEAT_INTERVAL_MS,
    MAX_POLL_INTERVAL_MS,
    RECORDS_PER_POLL,
    TRANSACTION_TIMEOUT_MS,
    Role,
    asked_to_leave,
    tell_assigned,
    tell_committed,
    tell_error,
    tell_read,
    tell_revoked,
)

_CALL_TIMEOUT_S = 20.0
# The first so that it is back soon after its broker is; the second as in ``tools.copiers.confluent``.
_SETTINGS = {"reconnect.backoff.max.ms": 500, "metadata.recovery.strategy": "none", "log_level": 3}


def main() -> None:
    role, leave = Role.from_arguments(), asked_to_leave()
    settings = {"bootstrap.servers": role.bootstrap_servers, "client.id": role.name, **_SETTINGS}
    producer = _producer(role, settings) if role.is_transactional else None
    consumer = Consumer({**settings, **_consumer_settings(role)})
    consumer.subscribe(
        [role.topic],
        on_assign=lambda _, partitions: tell_assigned(one.partition for one in partitions),
        on_revoke=lambda _, partitions: tell_revoked(one.partition for one in partitions),
    )
    while not leave.is_set():
        messages = [message for message in consumer.consume(RECORDS_PER_POLL, 0.1) if _is_record(message)]
        if not messages:
            continue
        reached = _reached(messages)
        if producer is None:
            tell_read(_place(message) for message in messages)
            _commit(consumer, role, reached)
        elif not _copied(producer, consumer, role, messages, reached):
            _rewind(consumer)
    consumer.close()


def _producer(role: Role, settings: dict[str, Any]) -> Producer:
    transactional = {"transactional.id": role.name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "linger.ms": 0}
    producer = Producer({**settings, **transactional})
    _insist(lambda: producer.init_transactions(_CALL_TIMEOUT_S))
    return producer


def _consumer_settings(role: Role) -> dict[str, Any]:
    if role.protocol == CONSUMER_PROTOCOL:
        membership: dict[str, Any] = {"group.protocol": "consumer"}
    else:
        membership = {
            "partition.assignment.strategy": role.protocol,
            "session.timeout.ms": role.session_timeout_ms,
            "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        }
    return {
        "group.id": role.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **membership,
    }


def _commit(consumer: Consumer, role: Role, reached: dict[int, int]) -> None:
    offsets = [TopicPartition(role.topic, partition, offset) for partition, offset in reached.items()]
    try:
        done = consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        tell_error(error)  # Whoever has these partitions now reads on from what was committed before.
        return
    tell_committed((one.partition, one.offset) for one in done or () if one.error is None)


def _copied(
    producer: Producer, consumer: Consumer, role: Role, messages: list[Message], reached: dict[int, int]
) -> bool:
    """One transaction; False when it was aborted."""
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(role.target, message.value(), partition=_place(message)[0])
        offsets = [TopicPartition(role.topic, partition, offset) for partition, offset in reached.items()]
        member = consumer.consumer_group_metadata()
        _insist(lambda: producer.send_offsets_to_transaction(offsets, member, _CALL_TIMEOUT_S))
        _insist(lambda: producer.commit_transaction(_CALL_TIMEOUT_S))
    except KafkaException as error:
        tell_error(error)
        if not error.args[0].txn_requires_abort():
            raise
        _insist(lambda: producer.abort_transaction(_CALL_TIMEOUT_S))
        return False
    tell_committed(reached.items())
    return True


def _rewind(consumer: Consumer) -> None:
    """Back to what is committed; a partition that is taken away meanwhile is begun from there by its next owner."""
    assigned = consumer.assignment()
    for one in _insist(lambda: consumer.committed(assigned, timeout=_CALL_TIMEOUT_S)) if assigned else ():
        consumer.seek(TopicPartition(one.topic, one.partition, max(0, one.offset)))


def _insist(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is not None:
        tell_error(KafkaException(error))
        # The rest is news of connections and of coordinators, which librdkafka deals with itself.
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
