"""Transfers between accounts: two records, for two accounts, of which a reader sees both or none.

A transfer that the rules refuse is aborted after half of it was sent, and no read_committed reader ever sees that half.
"""

import random
import sys
from collections import Counter

from semel.blocking import Consumer, Producer


class Refused(Exception):
    """The rules do not allow this transfer."""


def transfer(producer: Producer, source: str, target: str, amount: int, limit: int = 900) -> None:
    with producer.transaction():
        producer.send("bookings", str(-amount).encode(), key=source.encode())
        if amount > limit:
            raise Refused(f"{amount} from {source}: the limit is {limit}")
        producer.send("bookings", str(amount).encode(), key=target.encode())


def balances(servers: str) -> Counter[str]:
    """Return the balance of every account, from all committed bookings."""
    found: Counter[str] = Counter()
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [("bookings", index) for index in range(consumer.partitions_for("bookings"))]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(500):
                found[(record.key or b"").decode()] += int(record.value or b"0")
    return found


def run(servers: str, transfers: int = 100) -> Counter[str]:
    chance, accounts = random.Random(7), ["ann", "bob", "cid", "dan"]
    with Producer(bootstrap_servers=servers, transactional_id="teller-1") as producer:
        for _ in range(transfers):
            source, target = chance.sample(accounts, 2)
            try:
                transfer(producer, source, target, chance.randint(1, 1000))
            except Refused as reason:
                print("refused:", reason)
    return balances(servers)


if __name__ == "__main__":
    result = run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
    print(dict(result), "sum", sum(result.values()))
