"""Two hundred and eighty kills of a pipeline with five sinks (SQLite, files, Delta, Iceberg, Postgres) at every step.

Each run is ten kills: of the driver, the broker and the database, and of drivers that were replaced and go on. The
first 21 runs are on Semel, the last seven on Apache Kafka: everything that can be killed is, wherever it can be, three
times on Semel and once on Apache Kafka. A step that was to be reached and was not fails its run, and the verdict counts
the hits. What happens to workers of Spark that are killed is in ``tests/spark/test_sinks.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tools.brokers import apache_kafka, semel
from tools.postgres import postgres_server
from tools.server import running
from tools.sink_run import chosen_kills, kill_sinks

SOURCES = ("tests/spark",)
ON_SEMEL = 21
COUNT = ON_SEMEL + 7
KILLS = 10


def run(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="semel-sinks-", ignore_cleanup_errors=True) as folder:
        server = (semel if seed < ON_SEMEL else apache_kafka)(Path(folder, "broker"))
        with running(server), postgres_server() as postgres:
            return kill_sinks(
                server, postgres, Path(folder), chosen_kills(seed % ON_SEMEL, KILLS, order=seed)
            ).to_json()
