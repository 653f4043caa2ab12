"""What a sync to disk buys under ``flush=commit``: records per sync, and syncs per group commit by partitions.

Both are counted by the broker itself and read from its Prometheus page before and after.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.contestants import SEMEL_COMMIT
from benchmarks.measuring import Effort, Measured, Row, Workload
from benchmarks.raw_load import RECORD_BYTES, connected, request_for
from benchmarks.topics import fresh_topic
from tools.frames import now_ms, produce_request_to_all, receive_frame, record_batch
from tools.ports import HOST
from tools.server import Server


@dataclass(slots=True)
class Counted:
    syncs: float = 0
    groups: float = 0
    records: float = 0


@contextmanager
def counting(server: Server) -> Iterator[Counted]:
    """What the broker counted between entering and leaving."""
    before, counted = _page(server), Counted()
    yield counted
    after = _page(server)
    counted.syncs = after["semel_syncs_total"] - before["semel_syncs_total"]
    counted.groups = after["semel_commit_groups_total"] - before["semel_commit_groups_total"]
    counted.records = after["semel_appended_records_total"] - before["semel_appended_records_total"]


def records_per_sync_workload(connections: int, row: Row) -> Workload:
    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, connections) as topic, counting(server) as counted:
            request_for(server, topic, connections, 1, effort.seconds)
        return Measured({row.key: counted.records / max(1, counted.syncs)}, notes={"syncs": counted.syncs})

    return Workload(row.title, (row,), measure, only=frozenset({SEMEL_COMMIT}))


def syncs_per_group_workload(partitions: int, row: Row) -> Workload:
    """Every request writes to all partitions at once, so a group commit has that many files to make durable."""

    def measure(server: Server, effort: Effort) -> Measured:
        batch = record_batch([bytes(RECORD_BYTES)], now_ms())
        with fresh_topic(server, partitions) as topic, connected(server) as connection:
            request = produce_request_to_all(topic, partitions, batch)
            with counting(server) as counted:
                for _ in range(max(10, int(200 * effort.seconds / 4))):
                    connection.sendall(request)
                    receive_frame(connection)
        return Measured({row.key: counted.syncs / max(1, counted.groups)}, notes={"groups": counted.groups})

    return Workload(row.title, (row,), measure, only=frozenset({SEMEL_COMMIT}))


def _page(server: Server) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{HOST}:{server.launch.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value in samples}
