"""A source that delivers at least once becomes a topic in which every event is once.

The ids seen so far are themselves a topic, written in the same transaction as the events. After a crash they are read
back, so what was passed on and what is known to have been passed on never differ.
"""

import sys

from semel.blocking import Consumer, Producer


def seen_ids(servers: str) -> set[bytes]:
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [("seen", index) for index in range(consumer.partitions_for("seen"))]
        consumer.assign(partitions)
        ends, found = consumer.end_offsets(partitions), set()
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found.update(record.key for record in consumer.poll(500) if record.key is not None)
    return found


def run(servers: str, *, idle_ms: float = 3_000) -> int:
    """Until no event came for a while; returns how many were passed on. The key of an event is its id."""
    passed_on = 0
    with (
        Producer(bootstrap_servers=servers, transactional_id="dedup") as producer,
        Consumer(
            bootstrap_servers=servers,
            group_id="dedup",
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        seen = seen_ids(servers)  # After the producer has fenced an older instance: nobody else adds to them.
        consumer.subscribe(["events"])
        while records := consumer.poll(idle_ms):
            new = {record.key: record for record in records if record.key not in seen}
            with producer.transaction(consumer=consumer):
                for key, record in new.items():
                    producer.send("unique", record.value, key=key)
                    producer.send("seen", b"", key=key)
            seen.update(key for key in new if key is not None)
            passed_on += len(new)
    return passed_on


if __name__ == "__main__":
    print(run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"), "events passed on")
