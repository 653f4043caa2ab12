"""Removes the duplicates of a source that delivers at least once: in the output topic every event is once.

The ids seen so far are kept in a topic, too, and written in the same transaction as the events. After a crash they are
read back. So the events that were passed on and the ids that are known as seen never differ.
"""

import sys

from sample_orders import create

from semel.blocking import Consumer, Producer


def make_events(servers: str) -> None:
    """Write five events, each of them three times, as a source that retries may deliver them."""
    if create(servers, "events"):
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(15):
                producer.send("events", b"something happened", key=b"%d" % (number % 5))
    create(servers, "unique", "seen")


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


def run(servers: str) -> int:
    """Read all events, and return how many were passed on. The key of an event is its id."""
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
        seen = seen_ids(servers)  # The producer has fenced older instances, so no other program adds ids now.
        consumer.subscribe(["events"])
        while not has_read_all(consumer):
            if not (records := consumer.poll(1_000)):
                continue
            new = {record.key: record for record in records if record.key not in seen}
            with producer.transaction(consumer=consumer):
                for key, record in new.items():
                    producer.send("unique", record.value, key=key)
                    producer.send("seen", b"", key=key)
            seen.update(key for key in new if key is not None)
            passed_on += len(new)
    return passed_on


def has_read_all(consumer: Consumer) -> bool:
    """Whether the group has assigned partitions to this consumer (this takes seconds), and it has read all of them."""
    assigned = consumer.assignment
    return bool(assigned) and not any(consumer.lag(partition) for partition in assigned)


if __name__ == "__main__":
    servers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    make_events(servers)
    print(run(servers), "events passed on")
