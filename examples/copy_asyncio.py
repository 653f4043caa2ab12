"""Consume-transform-produce into two topics, exactly once: large orders are reviewed, all of them are counted.

Records and consumed offsets are one transaction, so you may kill this program at any time and start it again: no record
is missing, and none is there twice.
"""

import asyncio
import json
import sys

from sample_orders import create, make_orders

from semel import Consumer, Producer


async def run(servers: str) -> int:
    """Copy all orders, and return their number."""
    copied = 0
    async with (
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
        while not await has_read_all(consumer):
            if not (records := await consumer.poll(1_000)):
                continue
            # On an exception the transaction is aborted and the consumer goes back to the committed offsets.
            async with producer.transaction(consumer=consumer):
                for record in records:
                    order = json.loads(record.value or b"{}")
                    producer.send("counted", json.dumps({"amount": order["amount"]}).encode(), key=record.key)
                    if order["amount"] >= 1000:
                        producer.send("reviews", record.value, key=record.key)
            copied += len(records)
    return copied


async def has_read_all(consumer: Consumer) -> bool:
    """Whether the group has assigned partitions to this consumer (this takes seconds), and it has read all of them."""
    assigned = consumer.assignment
    return bool(assigned) and not any([await consumer.lag(partition) for partition in assigned])


if __name__ == "__main__":
    servers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    make_orders(servers)
    create(servers, "counted", "reviews")
    print(asyncio.run(run(servers)), "orders")
