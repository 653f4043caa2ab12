"""What is deleted gives its space back: no file stays, and none stays open, which would keep its blocks."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.blocking import Admin
from semel.testing import Broker
from tests.broker.raw_client import RawClient, batch
from tools.patience import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which files are open.")

TOPIC = "t"
SEGMENT_BYTES = 1024 * 1024
BATCHES = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, log_segment_bytes=SEGMENT_BYTES, log_retention_check_interval_ms=10**8) as running:
        with RawClient(running.port) as client:
            client.create_topic(TOPIC)
            for _ in range(BATCHES):
                assert client.produce(TOPIC, batch(b"x" * (SEGMENT_BYTES // 2))).error_code == 0
            for offset in range(BATCHES):
                client.fetch(TOPIC, offset)
        # Memory that needs a full collection to be freed would hide a file that is kept by it.
        gc.disable()
        try:
            yield running
        finally:
            gc.enable()


def log_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob(f"{TOPIC}-*/*.log"))


def deleted_and_open(folder: Path) -> list[str]:
    """Segments of this folder alone: other tests of this process may have left garbage that holds theirs."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    inside = str(folder.resolve()) + os.sep
    return [target for target in targets if target.startswith(inside) and target.endswith(".log (deleted)")]


def test_delete_records_removes_whole_segments_at_once(broker: Broker, tmp_path: Path) -> None:
    before = log_files(tmp_path)
    assert len(before) > 5
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.partitions.delete_records({(TOPIC, 0): BATCHES - 2}).all()

    after = log_files(tmp_path)
    assert after == before[-len(after) :]
    assert len(after) <= 2
    wait_until(lambda: not deleted_and_open(tmp_path), "no deleted segment is open")


def test_a_deleted_topic_keeps_no_file_open(broker: Broker, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.delete(TOPIC)

    wait_until(lambda: not list(tmp_path.glob("*-delete")), "its folder is gone")
    assert log_files(tmp_path) == []
    wait_until(lambda: not deleted_and_open(tmp_path), "none of its segments is open")
