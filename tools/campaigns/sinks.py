"""Two hundred and ten kills of a pipeline with five sinks (SQLite, files, Delta, Iceberg, Postgres) at every step.

Each run is ten kills: of the driver, the broker and the database, and of drivers that were replaced and go on. A step
that was to be reached and was not fails its run, and the verdict counts the hits.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tools.brokers import semel
from tools.postgres import postgres_server
from tools.server import running
from tools.sink_run import chosen_kills, kill_sinks

SOURCES = ("tests/spark",)
COUNT = 21
KILLS = 10


def run(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="semel-sinks-", ignore_cleanup_errors=True) as folder:
        server = semel(Path(folder, "broker"))
        with running(server), postgres_server() as postgres:
            return kill_sinks(server, postgres, Path(folder), chosen_kills(seed, KILLS)).to_json()
