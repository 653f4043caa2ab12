"""Two hundred kills of a pipeline on Semel and fifty on Apache Kafka: driver, tasks, broker, at every named point.

Each run has ten kills of one pipeline. The first twenty runs are on Semel, the last five on Apache Kafka. Every second
run is stateful, and half of each kind have two writers for each batch, as large batches have. Every process is killed
at every point at which it can be: on Semel at least three times, on Apache Kafka at least once. A run fails if a chosen
point was not reached, and the verdict counts the kills. The last seed of the campaign runs the tests that take too long
for ``make test``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.brokers import apache_kafka, semel
from tools.campaign import ROOT
from tools.server import running
from tools.spark_run import Kill, chosen_kills, kill_pipeline

SOURCES = ("tests/spark", "tests/clients")
RUNS = 25
COUNT = RUNS + 1
KILLS = 10
ON_SEMEL = 20


def kills_of(seed: int) -> list[Kill]:
    """Return the kills of a run. Among the stateful runs on one broker, and among the others, each run continues the
    list of kills where the run before it ended."""
    on_this_broker = seed if seed < ON_SEMEL else seed - ON_SEMEL
    return chosen_kills((on_this_broker + 1) // 2, KILLS, order=seed, is_stateful=seed % 2 == 1)


def run(seed: int) -> dict[str, Any]:
    if seed == RUNS:
        return _slow_tests()
    is_stateful = seed % 2 == 1
    kills = kills_of(seed)
    with tempfile.TemporaryDirectory(prefix="semel-spark-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        server = semel(place / "broker") if seed < ON_SEMEL else apache_kafka(place / "broker")
        with running(server):
            writers = 2 if seed % 4 >= 2 else None
            return kill_pipeline(server, place, kills, is_stateful=is_stateful, writers=writers).to_json()


def _slow_tests() -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-m", "spark_slow", "tests/spark"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return {"passed": done.returncode == 0, "printed": done.stdout[-2000:]}
