"""Consume-transform-produce into two topics, exactly once, with threads. See copy_asyncio.py."""

import json
import sys

from semel.blocking import Consumer, Producer


def run(servers: str, *, idle_ms: float = 3_000) -> int:
    """Until no order came for a while; returns how many were copied."""
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
        while records := consumer.poll(idle_ms):
            with producer.transaction(consumer=consumer):
                for record in records:
                    order = json.loads(record.value or b"{}")
                    producer.send("counted", json.dumps({"amount": order["amount"]}).encode(), key=record.key)
                    if order["amount"] >= 1000:
                        producer.send("reviews", record.value, key=record.key)
            copied += len(records)
    return copied


if __name__ == "__main__":
    print(run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"), "orders")
