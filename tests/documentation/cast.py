"""Whom documents speak of without introducing them: the reader's own functions and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow

from semel import ConsumerRecord
from semel.blocking import Admin, Consumer, Producer
from tools.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

lines: Final = [b"three apples", b"a pear"]
invoice: Final = b"invoice 1"
entry: Final = b"ledger entry 1"
offset: Final = 0
record: Final = b"a record"
values: Final = [b"one", b"two"]
keys: Final = [b"ann", b"bob"]
table: Final = pyarrow.table({"key": keys, "value": values})


def current_trace() -> bytes:
    return b"trace 1"


def invoice_for(record: ConsumerRecord) -> bytes:
    return b"invoice for " + (record.value or b"")


def send_an_order(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("orders", b"three apples")


def stateless(orders: DataFrame) -> DataFrame:
    return orders.select("key", "value")


def totals(orders: DataFrame) -> DataFrame:
    return orders.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")


def a_used_cluster(servers: str) -> None:
    """Orders of which one was aborted, and a group that has read the first two of them."""
    make_topics(servers, "orders")
    with Producer(bootstrap_servers=servers, transactional_id="writer") as producer:
        for value, is_kept in ((b"one", True), (b"no", False), (b"two", True), (b"three", True)):
            producer.begin()
            sent = producer.send(
                "orders", value, b"ann", partition=0, headers=[("from", b"old")], timestamp=1_700_000_000_000
            )
            sent.result()  # An abort drops what was not sent yet; this one is to be in the log.
            producer.commit() if is_kept else producer.abort()
    with Admin(bootstrap_servers=servers) as admin:
        admin.groups.alter_offsets("billing", {("orders", 0): 5}).all()


def make_topics(servers: str, *names: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        known = set(admin.topics.list())
        for name in names:
            if name not in known:
                admin.topics.create(name, partitions=2)


def members_of(servers: str, group: str) -> int:
    with Admin(bootstrap_servers=servers) as admin:
        return len(admin.groups.describe(group).members)


def patient_poll(consumer: Consumer) -> list[ConsumerRecord]:
    """What comes first, however long it takes; then what is there."""
    has_begun = any(consumer.position(partition) for partition in consumer.assignment)
    return consumer.poll(500 if has_begun else 1000 * PATIENCE_S)


def values_in(servers: str, topic: str) -> list[bytes | None]:
    """What a read_committed reader sees."""
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        partitions = [(topic, index) for index in range(consumer.partitions_for(topic))]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        values: list[bytes | None] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            values += (record.value for record in consumer.poll(200))
        return values
