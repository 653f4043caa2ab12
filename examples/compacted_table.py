"""A table kept in a compacted topic, as change data capture does it: the last record of a key is its row.

A record without a value deletes its row. Compaction removes records that were overwritten; a reader that starts at the
beginning always gets the current table, however old the topic is.
"""

import json
import sys

from semel.blocking import Admin, Consumer, Producer
from semel.errors import ErrorCode, KafkaError


def create(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        try:
            admin.topics.create("customers", partitions=1, configs={"cleanup.policy": "compact"})
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def apply(servers: str, changes: list[tuple[str, dict[str, object] | None]]) -> None:
    """Write changed rows by their key, ``None`` for deleted rows, in one transaction: all of them or none."""
    with Producer(bootstrap_servers=servers, transactional_id="customers-cdc") as producer, producer.transaction():
        for key, row in changes:
            producer.send("customers", None if row is None else json.dumps(row).encode(), key=key.encode())


def table(servers: str) -> dict[str, dict[str, object]]:
    rows: dict[str, dict[str, object]] = {}
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([("customers", 0)])
        (end,) = consumer.end_offsets([("customers", 0)]).values()
        while consumer.position(("customers", 0)) < end:
            for record in consumer.poll(500):
                key = (record.key or b"").decode()
                if record.value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = json.loads(record.value)
    return rows


def run(servers: str) -> dict[str, dict[str, object]]:
    create(servers)
    apply(servers, [("ann", {"city": "Athens"}), ("bob", {"city": "Bonn"})])
    apply(servers, [("ann", {"city": "Arles"}), ("bob", None), ("cid", {"city": "Cork"})])
    return table(servers)


if __name__ == "__main__":
    for name, row in run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").items():
        print(name, row)
