"""Example data of a shop, for pictures and tests of the console: topics, groups, and transactions in every state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from semel import OffsetAndMetadata
from semel.blocking import Admin, Consumer, Producer
from semel.inspection.pipeline_note import Note
from semel.types import TopicPartition
from tools.patience import PATIENCE_S

OPEN_ID = "payments-2"
HOSTILE_ID = "<img src=x onerror=alert(1)>/../'\"&;$(id)"
"""A hostile name for a group and a transactional id. Brokers refuse such a name for a topic."""


@contextmanager
def shop(**settings: Any) -> Iterator[None]:
    """Create the topics, a group ``billing`` with a member, a group without one, and three transactional ids."""
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(**settings))
        for name, partitions in (("orders", 3), ("payments", 2), ("audit.events", 1), ("clicks", 6)):
            admin.topics.create(name, partitions=partitions, replication_factor=1)
        with Producer(**settings) as producer:
            for number in range(60):
                order = {"order": 1000 + number, "customer": f"c-{number % 7}", "cents": 199 * (number % 13 + 1)}
                producer.send("orders", json.dumps(order).encode(), key=f"c-{number % 7}".encode())
            producer.send(
                "audit.events", b"<script>alert('records are text')</script>", headers=[("from", b"<b>web</b>")]
            )
            producer.send("audit.events", bytes(range(24)))
            for number in range(360):
                producer.send("clicks", f"page-{number % 9}".encode(), partition=number % 6)
            producer.flush()
        _finished(settings)
        _read_some(settings)
        consumer = stack.enter_context(
            Consumer(
                **settings,
                group_id="billing",
                auto_offset_reset="earliest",
                client_id="billing-worker-1",
                max_poll_interval_ms=24 * 3_600_000,  # It must stay a member, although it does not poll again.
            )
        )
        consumer.subscribe(["orders"])
        while not consumer.poll(PATIENCE_S * 1000):
            pass
        consumer.commit()
        opened = stack.enter_context(
            # Long enough that the transaction stays open while the pages are shown.
            Producer(**settings, transactional_id=OPEN_ID, transaction_timeout_ms=15 * 60_000)
        )
        opened.begin()
        for number in range(4):
            opened.send("payments", json.dumps({"pays": 2000 + number}).encode(), partition=0).result(PATIENCE_S)
        with Producer(**settings) as producer:
            for number in range(3):
                producer.send("payments", json.dumps({"refund": number}).encode(), partition=0).result(PATIENCE_S)
        try:
            yield
        finally:
            opened.close(timeout_ms=0)


def run_pipeline(source: TopicPartition, *, owner: str, group: str, **settings: Any) -> None:
    """Write what a Spark pipeline writes to the brokers when it has started and committed batch 0, its driver has died
    in batch 1, and the next driver has committed that batch.

    It reads nine records of ``source`` and writes five to a topic ``totals``, to which another producer writes as well.
    """

    def batch(producer: Producer, number: int, end: int, records: int) -> None:
        producer.begin()
        for value in range(records):
            producer.send("totals", b"%d" % value).result(PATIENCE_S)
            other.send("totals", b"of another producer").result(PATIENCE_S)
        note = Note("query-1", number, owner=owner, sinks=("sqlite:totals",))
        producer.send_offsets({source: OffsetAndMetadata(end, str(note))}, group)

    with Admin(**settings) as admin:
        admin.topics.create("totals", partitions=1, replication_factor=1)
    first = Producer(**settings, transactional_id=owner)
    first.init()
    with Producer(**settings) as other:
        first.begin()
        first.send_offsets({source: OffsetAndMetadata(0, str(Note("", -1, begin=0, owner=owner)))}, group)
        first.commit()
        batch(first, 0, end=5, records=3)
        first.commit()
        batch(first, 1, end=9, records=2)
        # The next driver fences the first one, which aborts its open transaction.
        with Producer(**settings, transactional_id=owner) as second:
            batch(second, 1, end=9, records=2)
            second.commit()
    first.close(timeout_ms=0)


def _finished(settings: dict[str, Any]) -> None:
    """Write transactions and end them: some are committed, one is aborted."""
    with Producer(**settings, transactional_id="payments-1") as producer:
        for number in range(5):
            producer.begin()
            for index in range(2):
                producer.send("payments", json.dumps({"pays": 1000 + number}).encode(), partition=index)
            producer.flush()
            producer.send_offsets({("orders", 0): OffsetAndMetadata(number + 1)}, "payments")
            if number == 2:
                producer.abort()
            else:
                producer.commit()
    with Producer(**settings, transactional_id=HOSTILE_ID) as producer, producer.transaction():
        producer.send("payments", b"once", partition=1)


def _read_some(settings: dict[str, Any]) -> None:
    with Admin(**settings) as admin:
        admin.groups.alter_offsets(HOSTILE_ID, {("clicks", 0): 1}).all()
        admin.groups.alter_offsets("reports", {("clicks", index): 5 for index in range(6)}).all()
