"""Consume-transform-produce into two topics, exactly once, with threads. See copy_asyncio.py."""

import json
import sys

from sample_orders import create, make_orders

from semel.blocking import Consumer, Producer


def run(servers: str) -> int:
    """Copy all orders, and return their number."""
    copied = 0
    with (
        Producer(bootstrap_servers=servers, transactional_id="review") as producer,
        Consumer(
            bootstrap_servers=servers,
            group_id="review",
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        consumer.subscribe(["orders"])
        while not has_read_all(consumer):
            if not (records := consumer.poll(1_000)):
                continue
            with producer.transaction(consumer=consumer):
                for record in records:
                    order = json.loads(record.value or b"{}")
                    producer.send("counted", json.dumps({"amount": order["amount"]}).encode(), key=record.key)
                    if order["amount"] >= 1000:
                        producer.send("reviews", record.value, key=record.key)
            copied += len(records)
    return copied


def has_read_all(consumer: Consumer) -> bool:
    """Whether the group has assigned partitions to this consumer (this takes seconds), and it has read all of them."""
    assigned = consumer.assignment
    return bool(assigned) and not any(consumer.lag(partition) for partition in assigned)


if __name__ == "__main__":
    servers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    make_orders(servers)
    create(servers, "counted", "reviews")
    print(run(servers), "orders")
