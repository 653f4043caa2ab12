"""Apache Kafka's own DumpLogSegments reads what compaction leaves, and finds it sound."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.log.disk import read_file
from tests.logs import FOLDER
from tests.properties.log.test_cleaning_crashes import dirty_log
from tests.unit.log.compaction.bench import Bench
from tools.dump_log_segments import examine

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]


def test_kafka_finds_every_file_of_a_compacted_log_sound(tmp_path: Path) -> None:
    bench = dirty_log()
    bench.commit(4)
    bench.clean()
    assert any(not header.record_count for header in bench.headers()), "some batches are headers alone"
    assert any(header.delete_horizon_ms for header in bench.headers())
    _copy(bench, tmp_path / "orders-0")
    report = examine(tmp_path, compacted=frozenset({"orders"}))
    assert min(report.files[suffix] for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")) > 1
    # An entry stays as long as its marker, and so outlives its records: in that it is not found in the batches.
    assert [finding for finding in report.findings if "aborted transactions" not in finding.message] == []


def _copy(bench: Bench, folder: Path) -> None:
    folder.mkdir()
    for name in bench.disk.list(FOLDER):
        (folder / name).write_bytes(read_file(bench.disk, f"{FOLDER}/{name}"))
