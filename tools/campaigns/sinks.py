"""Two hundred and forty kills of a pipeline with a topic and five sinks (SQLite, files, Delta, Iceberg, Postgres).

Each run has ten kills: of the driver, of a worker that runs its tasks, of the broker and the database; in some of them
a driver was replaced and goes on. The first twelve runs are on Semel, the others on Apache Kafka; on each of them every
process is killed at every step at which it can be. A run fails if a chosen step was not reached, and the verdict counts
the kills. Workers of Spark itself are killed in ``tests/spark/test_sinks.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tools.brokers import apache_kafka, semel
from tools.postgres import postgres_server
from tools.server import running
from tools.sink_run import Kill, chosen_kills, kill_sinks

ON_SEMEL = 12
COUNT = 2 * ON_SEMEL
KILLS = 10


def kills_of(seed: int) -> list[Kill]:
    return chosen_kills(seed % ON_SEMEL, KILLS, order=seed)


def run(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="semel-sinks-", ignore_cleanup_errors=True) as folder:
        server = (semel if seed < ON_SEMEL else apache_kafka)(Path(folder, "broker"))
        with running(server), postgres_server() as postgres:
            return kill_sinks(server, postgres, Path(folder), kills_of(seed)).to_json()
