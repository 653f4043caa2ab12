"""A pipeline of a Spark Connect client: its state lives beside the driver, and is found again after a failure."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from semel.testing import Broker
from tests.spark.topics import committed, create, fill

pytestmark = [
    pytest.mark.spark_slow,
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
]


@pytest.fixture(autouse=True)
def client_libraries() -> None:
    for library in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(library, reason="pip install 'pyspark[connect]' brings it")


def test_a_count_of_a_client_is_right_after_its_driver_failed_behind_a_commit(broker: Broker, tmp_path: Path) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(30))
    assert "failed at 'committed' of batch 1" in run_client(broker, tmp_path, "fails")
    assert run_client(broker, tmp_path) == ""
    written = [(record.key, int(record.value or b"")) for record in committed(broker, "out")]
    assert max(Counter(written).values()) == 1
    assert dict(sorted(written)) == Counter(b"key-%d" % (number % 7) for number in range(30))


def test_what_cannot_be_done_from_a_client_is_refused_with_the_reason(broker: Broker, tmp_path: Path) -> None:
    create(broker, "in", "out")
    arrow, view, foreign = run_client(broker, tmp_path, "refused").splitlines()
    assert "Spark Connect hides: use a classic session" in arrow
    assert "reads a view or a table that is a stream" in view
    assert "the query reads 'rate', whose offsets are not in the transaction" in foreign
    assert committed(broker, "out") == []


def run_client(broker: Broker, folder: Path, *more: str) -> str:
    """What it printed: the error of its query, if it has one."""
    command = [sys.executable, "-m", "tests.spark.connect_job", broker.bootstrap_servers, str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
