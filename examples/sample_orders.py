"""Orders for the other examples: the orders of four customers during the last six hours.

An order is JSON, with its customer as the key and the time of the order as the timestamp. An example that finds no
topic ``orders`` creates it with this module.
"""

import json
import random
import sys
import time

from semel.blocking import Admin, Producer
from semel.errors import ErrorCode, KafkaError

MINUTE_MS = 60_000


def create(servers: str, *topics: str) -> list[str]:
    """Create the topics that are missing, and return them."""
    with Admin(bootstrap_servers=servers) as admin:
        return [topic for topic in topics if _is_new(admin, topic)]


def make_orders(servers: str) -> int:
    """Create the topic and fill it, unless it exists, and return the number of orders that were written."""
    if not create(servers, "orders"):
        return 0
    now_ms, chance = int(time.time() * 1000), random.Random(7)
    times = range(now_ms - 6 * 60 * MINUTE_MS, now_ms, 5 * MINUTE_MS)
    with Producer(bootstrap_servers=servers) as producer:
        for time_ms in times:
            order = json.dumps({"amount": chance.randint(1, 2000)}).encode()
            producer.send("orders", order, chance.choice(["ann", "bob", "cid", "dan"]).encode(), timestamp=time_ms)
    return len(times)


def _is_new(admin: Admin, topic: str) -> bool:
    try:
        admin.topics.create(topic, partitions=2)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


if __name__ == "__main__":
    print(make_orders(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"), "orders written")
