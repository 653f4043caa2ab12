"""Consume-transform-produce into two topics, exactly once: large orders are reviewed, all of them are counted.

Records and consumed offsets are one transaction, so whenever this is killed and started again, nothing is missing and
nothing is there twice.
"""

import asyncio
import json
import sys

from semel import Consumer, Producer


async def run(servers: str, *, idle_ms: float = 3_000) -> int:
    """Until no order came for a while; returns how many were copied."""
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
        while records := await consumer.poll(idle_ms):
            # On an exception the transaction is aborted and the consumer goes back to where it was.
            async with producer.transaction(consumer=consumer):
                for record in records:
                    order = json.loads(record.value or b"{}")
                    producer.send("counted", json.dumps({"amount": order["amount"]}).encode(), key=record.key)
                    if order["amount"] >= 1000:
                        producer.send("reviews", record.value, key=record.key)
            copied += len(records)
    return copied


if __name__ == "__main__":
    print(asyncio.run(run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")), "orders")
