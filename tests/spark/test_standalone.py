"""A standalone cluster: a real master and two workers, and a pipeline whose tasks run in their executors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from semel.spark.java import use_java
from semel.testing import Broker
from tests.spark.topics import create, fill, group_offsets, values
from tools.patience import wait_until

SPARK_HOME = Path(pyspark.__file__).parent

JOB = """
servers = "{servers}"
transactional_id = "jobs"
checkpoint = "{folder}/checkpoint"
sql = "SELECT key, value FROM numbers"
writers = 2
[sources.numbers]
subscribe = "in"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 30
[sink]
topic = "out"
[spark]
spark.master = "{master}"
spark.driver.host = "127.0.0.1"
spark.driver.bindAddress = "127.0.0.1"
spark.executor.memory = "512m"
spark.executor.cores = 1
spark.sql.shuffle.partitions = 2
spark.ui.enabled = false
"""


@contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A process of Spark's; the file is what it prints."""
    output = folder / f"{name}.txt"
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments], stdout=file, stderr=file, env=environment
        )
    try:
        yield output
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    use_java()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with ExitStack() as running:
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        said = running.enter_context(daemon(tmp_path, "master", f"{deploy}.master.Master", *place, "--port", str(port)))
        wait_until(lambda: _answers(port))
        for number in range(2):
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work-{number}")]
            running.enter_context(
                daemon(tmp_path, f"worker-{number}", f"{deploy}.worker.Worker", *place, *own, address)
            )
        wait_until(lambda: said.read_text().count("Registering worker") == 2)
        yield address


@pytest.mark.spark_slow
@pytest.mark.needs("java")
def test_a_pipeline_on_a_standalone_cluster_writes_every_record_once_over_two_runs(
    master: str, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "out")
    file = tmp_path / "job.toml"
    file.write_text(JOB.format(servers=broker.bootstrap_servers, folder=tmp_path, master=master))
    for numbers, batches in ((range(50), 2), (range(50, 70), 1)):
        fill(broker, "in", numbers)
        lines = run_job(file)
        assert len(lines) == batches
        assert lines[-1]["lag"] == 0
    assert values(broker, "out") == list(range(70))
    assert sum(group_offsets(broker, "jobs", "in").values()) == 70
    # The tasks were the workers' executors': each has a folder for the application.
    assert [len(list(work.glob("app-*"))) for work in sorted(tmp_path.glob("work-*"))] == [2, 2]


def run_job(file: Path) -> list[dict[str, int]]:
    """In a driver process of its own, as a user would."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from semel.cli.main import main; raise SystemExit(main())",
            *("pipeline", "run", str(file), "--available-now", "--json"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _answers(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0
