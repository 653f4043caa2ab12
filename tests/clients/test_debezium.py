"""Debezium's Postgres connector in Kafka Connect, both unmodified: the changes of a table, exactly once in a topic.

Connect's distributed worker has its own topics (configs, offsets, status) and its transactions on the broker; offsets
and changes are in one transaction. The worker is killed while such a transaction is open and started again. A
read_committed reader finds every change of a row once, in order, and the rows that are in the table.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from semel import blocking
from tests.clients.connect_worker import ConnectWorker
from tools.brokers import apache_kafka, semel
from tools.kafka_jars import DEBEZIUM, application_jars
from tools.load import create_topic
from tools.patience import wait_until
from tools.ports import HOST, free_port
from tools.server import Server, running

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("kafka", DEBEZIUM, "postgres"),
    pytest.mark.xdist_group("debezium"),
]

TOPIC = "shop.public.orders"
PARTITIONS = [(TOPIC, number) for number in range(3)]
ORDERS = 50
CHANGES_IN_A_TRANSACTION = 20
BYTES_MAX = 50_000_000
"""More than a partition of the topic has."""

LOGICAL_DECODING = {"wal_level": "logical", "max_wal_senders": "4"}

# Small batches, each of which is a transaction: some end in the middle of a transaction of Postgres.
CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "exactly.once.support": "required",
    "tasks.max": "1",
    "database.hostname": HOST,
    "database.user": "postgres",
    "database.password": "not asked for",
    "database.dbname": "postgres",
    "plugin.name": "pgoutput",
    "topic.prefix": "shop",
    "table.include.list": "public.orders",
    "max.batch.size": "7",
    "max.queue.size": "70",
    # Postgres may still believe in the killed worker when the next one asks for the replication slot.
    "slot.max.retries": "1000",
    "slot.retry.delay.ms": "200",
    # A deletion and its tombstone have one offset of the source: of a worker that is killed between their batches,
    # Debezium's next one takes the tombstone for sent (debezium/dbz#2549).
    "tombstones.on.delete": "false",
}

Change = tuple[str, int | None]
"""Debezium's operation (c, r, u, d) and the version that the row has then."""


class Table:
    """A table of orders, and what was done to each of them. No two changes write the same version."""

    def __init__(self, dsn: str) -> None:
        import psycopg

        self.changes: defaultdict[int, list[Change]] = defaultdict(list)
        self._connection = psycopg.connect(dsn)
        self._random = random.Random(7)
        self._last_version = 0
        self._ids: set[int] = set()
        with self._connection.transaction():
            self._connection.execute("CREATE TABLE orders (id int PRIMARY KEY, version int NOT NULL)")

    def fill(self) -> None:
        """Insert rows that the connector reads in its snapshot."""
        with self._connection.transaction():
            for order in range(ORDERS // 2):
                self._insert(order, "r")

    def change(self) -> None:
        """Insert, update and delete rows in one transaction."""
        with self._connection.transaction():
            for _ in range(CHANGES_IN_A_TRANSACTION):
                order = self._random.randrange(ORDERS)
                if order not in self._ids:
                    self._insert(order, "c")
                elif self._random.random() < 0.3:
                    self._delete(order)
                else:
                    self._update(order)

    def rows(self) -> dict[int, int]:
        return dict(self._connection.execute("SELECT id, version FROM orders").fetchall())

    def close(self) -> None:
        self._connection.close()

    def _insert(self, order: int, operation: str) -> None:
        self._last_version += 1
        self._connection.execute("INSERT INTO orders VALUES (%s, %s)", (order, self._last_version))
        self._ids.add(order)
        self.changes[order].append((operation, self._last_version))

    def _update(self, order: int) -> None:
        self._last_version += 1
        self._connection.execute("UPDATE orders SET version = %s WHERE id = %s", (self._last_version, order))
        self.changes[order].append(("u", self._last_version))

    def _delete(self, order: int) -> None:
        self._connection.execute("DELETE FROM orders WHERE id = %s", (order,))
        self._ids.remove(order)
        self.changes[order].append(("d", None))


class Changes:
    """What a read_committed consumer sees of the topic, by key and in order."""

    def __init__(self, servers: str) -> None:
        self.seen: defaultdict[int, list[Change]] = defaultdict(list)
        self.consumer = blocking.Consumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        self.consumer.assign(PARTITIONS)

    def count(self) -> int:
        for record in self.consumer.poll(200):
            event = json.loads(record.value or b"")
            change: Change = event["op"], event["after"] and event["after"]["version"]
            self.seen[json.loads(record.key or b"")["id"]].append(change)
        return counted(self.seen)

    def rows(self) -> dict[int, int]:
        """The table that the last change of each row makes."""
        return {order: version for order, changes in self.seen.items() if (version := changes[-1][1]) is not None}


def counted(changes: Mapping[int, list[Change]]) -> int:
    return sum(map(len, changes.values()))


@pytest.fixture(params=["semel", "kafka"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    makers: dict[str, Callable[..., Server]] = {"semel": semel, "kafka": apache_kafka}
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with running(makers[request.param](tmp_path / "broker", settings=settings)) as server:
        create_topic(server.bootstrap_servers, TOPIC, partitions=len(PARTITIONS))
        yield server


def has_open_transaction(admin: blocking.Admin) -> bool:
    """Whether records of a transaction are in the topic that is neither committed nor aborted."""
    described = admin.partitions.describe_producers(PARTITIONS).all()
    return any(state.transaction_start_offset is not None for states in described.values() for state in states)


def has_aborted_records(admin: blocking.Admin) -> bool:
    return any(
        admin.partitions.read_batches(partition, 0, stable_only=True, max_bytes=BYTES_MAX).aborted
        for partition in PARTITIONS
    )


def test_every_change_of_a_table_is_in_the_topic_once_though_the_worker_is_killed(
    server: Server, tmp_path: Path
) -> None:
    from tools.postgres import postgres_server

    port = free_port()
    changes = Changes(server.bootstrap_servers)
    worker = ConnectWorker(tmp_path / "worker", server.bootstrap_servers, application_jars(DEBEZIUM))

    def has_all() -> bool:
        return changes.count() >= counted(table.changes)

    def told() -> str:
        return f"{changes.count()} of {counted(table.changes)} changes are in the topic; {worker.told('orders')}"

    def is_paused_in_a_transaction() -> bool:
        table.change()
        worker.pause()
        if has_open_transaction(admin):
            return True
        worker.resume()
        return False

    with ExitStack() as stack:
        admin = stack.enter_context(blocking.Admin(bootstrap_servers=server.bootstrap_servers))
        stack.enter_context(changes.consumer)
        postgres = stack.enter_context(postgres_server(port=port, settings=LOGICAL_DECODING))
        table = stack.enter_context(closing(Table(postgres.dsn)))
        table.fill()
        stack.callback(worker.kill)
        worker.start()
        wait_until(lambda: worker.accepts("orders", {**CONNECTOR, "database.port": str(port)}), told)
        wait_until(has_all, told)
        table.change()
        wait_until(has_all, told)
        # Once is enough, but for a commit that was on its way to the broker when the worker was paused.
        while not has_aborted_records(admin):
            wait_until(is_paused_in_a_transaction, told)
            worker.kill()
            worker.terminate_transaction("orders")
            table.change()
            worker.start()
            table.change()
            wait_until(has_all, told)
        rows = table.rows()
    assert changes.seen == table.changes
    assert changes.rows() == rows
