"""``kill -9`` under load: fifty kills in ten runs, half of them with ``flush=os``, each on its own data directory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tools.brokers import semel
from tools.kill_run import kill_under_load
from tools.run_result import to_json
from tools.server import running

COUNT = 10
KILLS = 5


def run(seed: int) -> dict[str, Any]:
    # The page cache survives the process, so nothing may be lost with flush=os, which is Apache Kafka's way, either.
    flush = ("commit", "os")[seed % 2]
    with (
        tempfile.TemporaryDirectory(prefix="semel-kill-") as folder,
        running(semel(Path(folder), settings={"flush": flush})) as server,
    ):
        verdict = kill_under_load(server, seed=seed, kills=KILLS)
    return {"flush": flush, **to_json(verdict)}
