"""Applications that double numbers, each in its own way: two that are exactly-once, and those that people get wrong.

Every function is one life of an application: it takes the bootstrap servers and returns when the input is used up. The
prover calls it in a process that it kills, so each has to be importable.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from semel.blocking import Consumer, Producer
from semel.client.values import ConsumerRecord
from semel.errors import AbortableError, KafkaError, ProducerFenced
from semel.types import TopicPartition

GIVEN = {"orders": [str(number).encode() for number in range(8)]}
EXPECT = {"doubled": [str(2 * number).encode() for number in range(8)]}
PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
GROUP = "doubling"


def _consumer(servers: str, **settings: Any) -> Consumer:
    return Consumer(
        **{
            "bootstrap_servers": servers,
            "group_id": GROUP,
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            **settings,
        }
    )


def _producer(servers: str, transactional_id: str = "doubling") -> Producer:
    return Producer(bootstrap_servers=servers, transactional_id=transactional_id)


def _batches(consumer: Consumer, partitions: list[TopicPartition] = PARTITIONS) -> Iterator[list[ConsumerRecord]]:
    """Two records at a time, until the partitions are used up."""
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        if records := consumer.poll(200, max_records=2):
            yield records


def _batches_of_group(consumer: Consumer) -> Iterator[list[ConsumerRecord]]:
    """Two records at a time, as a member of the group, until the group has committed all."""
    consumer.subscribe(["orders"])
    ends = consumer.end_offsets(PARTITIONS)
    while any((reached := consumer.committed([at])[at]) is None or reached.offset < ends[at] for at in PARTITIONS):
        if records := consumer.poll(200, max_records=2):
            yield records


def _send(producer: Producer, records: list[ConsumerRecord], topic: str = "doubled") -> None:
    for record in records:
        producer.send(topic, str(2 * int(record.value or b"")).encode())


# Right.


def transactional_copy(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction(consumer=consumer):
                _send(producer, records)


def transactional_member(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches_of_group(consumer):
            with producer.transaction(consumer=consumer):
                _send(producer, records)


def carries_on_after_an_abort(servers: str) -> None:
    """An abort is no reason to die: the consumer is set back, and the records are read again."""
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            try:
                with producer.transaction(consumer=consumer):
                    _send(producer, records)
            except KafkaError as error:
                if isinstance(error, ProducerFenced):
                    raise


def keeps_dead_letters(servers: str) -> None:
    """What is no number is in another topic, as surely as the others are doubled."""
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction(consumer=consumer, dead_letter="orders.dlq"):
                for record in records:
                    with producer.processing(record, on=ValueError) as output:
                        output.send("doubled", str(2 * int(record.value or b"")).encode())


def transactional_service(servers: str) -> None:
    """One that never ends."""
    with _producer(servers) as producer, _consumer(servers) as consumer:
        consumer.subscribe(["orders"])
        while True:
            if records := consumer.poll(200, max_records=2):
                with producer.transaction(consumer=consumer):
                    _send(producer, records)


def copies_keys(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction(consumer=consumer):
                for record in records:
                    producer.send("copy", record.value, record.key)


# Of no use.


def does_nothing(servers: str) -> None:
    pass


def dies(servers: str) -> None:
    raise RuntimeError("no coffee")


# Wrong: no transactions.


def commits_before_it_sends(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            consumer.commit()
            _send(producer, records)
            producer.flush()


def commits_after_it_sends(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            _send(producer, records)
            producer.flush()
            consumer.commit()


def sends_without_acknowledgement(servers: str) -> None:
    """acks=0: there is no answer that could be waited for."""
    with (
        Producer(bootstrap_servers=servers, acks=0, enable_idempotence=False) as producer,
        _consumer(servers) as consumer,
    ):
        for records in _batches(consumer):
            _send(producer, records)
            producer.flush()
            consumer.commit()


def commits_without_a_flush(servers: str) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=50) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            _send(producer, records)
            consumer.commit()


def is_auto_commit(servers: str) -> None:
    """enable.auto.commit"""
    with (
        Producer(bootstrap_servers=servers) as producer,
        _consumer(servers, enable_auto_commit=True) as consumer,
    ):
        for records in _batches(consumer):
            _send(producer, records)
            producer.flush()


def commits_nothing(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            _send(producer, records)
            producer.flush()


def sends_without_idempotence(servers: str) -> None:
    with (
        Producer(bootstrap_servers=servers, enable_idempotence=False, retries=5) as producer,
        _consumer(servers) as consumer,
    ):
        for records in _batches(consumer):
            _send(producer, records)
            producer.flush()
            consumer.commit()


def ignores_a_failed_send(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            for record in records:
                with contextlib.suppress(KafkaError):
                    producer.send("doubled", str(2 * int(record.value or b"")).encode()).result()
            consumer.commit()


def remembers_what_it_has_sent_in_memory(servers: str) -> None:
    """A set of offsets against duplicates, which dies with the process."""
    done: set[tuple[int, int]] = set()
    with Producer(bootstrap_servers=servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            _send(producer, [record for record in records if (record.partition, record.offset) not in done])
            producer.flush()
            done |= {(record.partition, record.offset) for record in records}
            consumer.commit()


# Wrong: transactions, but the offsets are elsewhere.


def commits_offsets_after_the_transaction(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction():
                _send(producer, records)
            consumer.commit()


def commits_offsets_before_the_transaction(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            consumer.commit()
            with producer.transaction():
                _send(producer, records)


def commits_offsets_within_but_not_in_the_transaction(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction():
                _send(producer, records)
                consumer.commit()


def commits_offsets_of_another_group(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction():
                _send(producer, records)
                producer.send_offsets(consumer.positions(), "tripling")


def commits_the_offset_of_the_last_record(servers: str) -> None:
    """Kafka's committed offset is that of the next record."""
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction():
                _send(producer, records)
                producer.send_offsets({("orders", one.partition): one.offset for one in records}, GROUP)


def commits_one_offset_too_far(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction():
                _send(producer, records)
                producer.send_offsets({("orders", one.partition): one.offset + 2 for one in records}, GROUP)


def commits_the_first_partition_only(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction():
                _send(producer, records)
                producer.send_offsets({PARTITIONS[0]: consumer.position(PARTITIONS[0])}, GROUP)


def commits_what_it_has_polled_and_not_processed(servers: str) -> None:
    waiting: list[ConsumerRecord] = []
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            waiting += records
            with producer.transaction():
                _send(producer, [waiting.pop(0)])
                producer.send_offsets(consumer.positions(), GROUP)
        while waiting:
            with producer.transaction():
                _send(producer, [waiting.pop(0)])


def commits_offsets_once_in_a_while(servers: str) -> None:
    """A transaction for each record, and the offsets with the last one of a batch."""
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            for record in records:
                with producer.transaction():
                    _send(producer, [record])
                    if record is records[-1]:
                        producer.send_offsets(consumer.positions(), GROUP)


def commits_by_itself_and_in_transactions(servers: str) -> None:
    """The consumer commits when it is closed: also what the aborted transaction has not done."""
    with _producer(servers) as producer, _consumer(servers, enable_auto_commit=True) as consumer:
        for records in _batches(consumer):
            with producer.transaction():
                _send(producer, records)
                producer.send_offsets(consumer.positions(), GROUP)


# Wrong: what is written is not in the transaction.


def sends_outside_of_the_transaction(servers: str) -> None:
    with (
        _producer(servers) as producer,
        Producer(bootstrap_servers=servers) as other,
        _consumer(servers) as consumer,
    ):
        for records in _batches(consumer):
            with producer.transaction(consumer=consumer):
                _send(other, records)
                other.flush()


def sends_the_second_topic_outside_of_the_transaction(servers: str) -> None:
    """The output is right; the log of what was done is not."""
    with (
        _producer(servers) as producer,
        Producer(bootstrap_servers=servers) as other,
        _consumer(servers) as consumer,
    ):
        for records in _batches(consumer):
            with producer.transaction(consumer=consumer):
                _send(producer, records)
                _send(other, records, "audit")
                other.flush()


# Wrong: what it reads.


def reads_uncommitted_records(servers: str) -> None:
    with _producer(servers) as producer, _consumer(servers, isolation_level="read_uncommitted") as consumer:
        for records in _batches(consumer):
            with producer.transaction(consumer=consumer):
                _send(producer, records)


def begins_at_the_end(servers: str) -> None:
    """auto.offset.reset=latest, and a first life that dies before it has committed anything."""
    with _producer(servers) as producer, _consumer(servers, auto_offset_reset="none") as consumer:
        consumer.assign(PARTITIONS)
        ends = consumer.end_offsets(PARTITIONS)
        found = consumer.committed(PARTITIONS)
        for partition in PARTITIONS:
            reached = found[partition]
            # "If there is no offset for one, it has been read": true for all but the first life.
            is_first = all(one is None for one in found.values())
            consumer.seek(partition, 0 if is_first else ends[partition] if reached is None else reached.offset)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records = consumer.poll(200, max_records=2)
            with producer.transaction():
                _send(producer, records)
                producer.send_offsets({("orders", record.partition): record.offset + 1 for record in records}, GROUP)


# Wrong: what it does about errors.


def swallows_an_abort(servers: str) -> None:
    """The next batch follows, and the one that was aborted is gone."""
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            try:
                with producer.transaction():
                    _send(producer, records)
                    producer.send_offsets(consumer.positions(), GROUP)
            except ProducerFenced:
                raise
            except KafkaError as error:
                print(f"will be better next time: {error}")


def commits_what_it_has_aborted(servers: str) -> None:
    """ "Poison" is skipped: but it was no poison."""
    with _producer(servers) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            try:
                with producer.transaction(consumer=consumer):
                    _send(producer, records)
            except ProducerFenced:
                raise
            except KafkaError:
                offsets = {("orders", record.partition): record.offset + 1 for record in records}
                consumer.commit(offsets)
                for partition, offset in offsets.items():
                    consumer.seek(partition, offset)


def repeats_a_batch_in_a_new_producer(servers: str) -> None:
    """Fenced: another one does the work. It goes on all the same, with what it has in memory."""
    producer = _producer(servers)
    producer.init()
    with _consumer(servers) as consumer:
        for records in _batches(consumer):
            while True:
                try:
                    with producer.transaction():
                        _send(producer, records)
                        producer.send_offsets(consumer.positions(), GROUP)
                    break
                except ProducerFenced:
                    producer = _producer(servers)
                    producer.init()
    producer.close()


def ends_well_whatever_happens(servers: str) -> None:
    with contextlib.suppress(KafkaError):
        transactional_copy(servers)


# Wrong: who it is.


def has_another_transactional_id_in_each_life(servers: str) -> None:
    """One that was only stopped is not fenced."""
    with _producer(servers, str(uuid.uuid4())) as producer, _consumer(servers) as consumer:
        for records in _batches(consumer):
            with producer.transaction(consumer=consumer):
                _send(producer, records)


def shares_a_transactional_id_among_its_threads(servers: str) -> None:
    """The second one fences the first, which takes that for a sign that its work is done by another."""
    both_began = threading.Barrier(2)

    def copy(partition: TopicPartition) -> None:
        with contextlib.suppress(ProducerFenced), _producer(servers) as producer, _consumer(servers) as consumer:
            both_began.wait()
            for records in _batches(consumer, [partition]):
                with producer.transaction(consumer=consumer):
                    _send(producer, records)

    threads = [threading.Thread(target=copy, args=(partition,)) for partition in PARTITIONS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def keeps_records_across_a_rebalance(servers: str) -> None:
    """Records wait until there are four. They still wait when the partitions that they came from are another's."""
    waiting: list[ConsumerRecord] = []
    with _producer(servers, str(uuid.uuid4())) as producer, _consumer(servers) as consumer:
        for records in _batches_of_group(consumer):
            waiting += records
            if len(waiting) < 4:
                continue
            with contextlib.suppress(AbortableError):
                with producer.transaction():
                    _send(producer, waiting)
                    producer.send_offsets(consumer.positions(), consumer.group_metadata())
                waiting.clear()
        if waiting:
            with producer.transaction():
                _send(producer, waiting)


RIGHT = (transactional_copy, transactional_member, carries_on_after_an_abort)


def expected_of(application: object) -> dict[str, list[bytes]]:
    is_audited = application is sends_the_second_topic_outside_of_the_transaction
    return {**EXPECT, "audit": EXPECT["doubled"]} if is_audited else EXPECT


if __name__ == "__main__":
    globals()[sys.argv[1]](os.environ["SEMEL_BOOTSTRAP_SERVERS"])
