"""Orders become invoices; records that are not orders go to a topic of their own, in the same transaction.

An order that cannot be read does not stop the program and is not lost: it is in placed.dlq, once, with the reason in
its headers. Other exceptions, which the order did not cause, are raised: the transaction is aborted, and its records
are read again.
"""

import json
import sys

from sample_orders import create

from semel.blocking import Consumer, Producer
from semel.client.values import ConsumerRecord

PLACED = [b'{"amount": 3}', b'{"price": 4}', b"three apples", b'{"amount": 5}']


def invoice(order: ConsumerRecord) -> bytes:
    """Return the invoice of an order. Raises ValueError or KeyError for a record that is not an order."""
    return f"pay {json.loads(order.value or b'')['amount'] * 2}".encode()


def process(servers: str) -> list[str]:
    """Process all orders in the topic, and return the refused ones with the reasons."""
    with (
        Producer(bootstrap_servers=servers, transactional_id="invoicing-1") as producer,
        Consumer(
            bootstrap_servers=servers,
            group_id="invoicing",
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        partitions = [("placed", index) for index in range(consumer.partitions_for("placed"))]
        consumer.assign(partitions)
        while any(consumer.lag(partition) for partition in partitions):
            records = consumer.poll(500)
            with producer.transaction(consumer=consumer, dead_letter="placed.dlq"):
                for record in records:
                    with producer.processing(record, on=(ValueError, KeyError)) as output:
                        output.send("invoices", invoice(record), key=record.key)
    return refused(servers)


def refused(servers: str) -> list[str]:
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [("placed.dlq", index) for index in range(consumer.partitions_for("placed.dlq"))]
        consumer.assign(partitions)
        reasons = []
        while any(consumer.lag(partition) for partition in partitions):
            for record in consumer.poll(500):
                reason = dict(record.headers)["semel-error"] or b""
                reasons.append(f"{(record.value or b'').decode()}: {reason.decode()}")
    return sorted(reasons)


def run(servers: str) -> list[str]:
    if create(servers, "placed", "invoices", "placed.dlq"):
        with Producer(bootstrap_servers=servers) as producer:
            for order in PLACED:
                producer.send("placed", order)
    return process(servers)


if __name__ == "__main__":
    print(*run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"), sep="\n")
