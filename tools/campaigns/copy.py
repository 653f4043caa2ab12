"""A transactional copy of 100,000 records by each client in turn, with twenty ``kill -9`` of the broker in each."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tools.brokers import semel
from tools.copier_process import JAVA_COPIER, PYTHON_COPIERS
from tools.copy_run import copy_under_kills
from tools.run_result import to_json
from tools.server import running

COPIERS = (*PYTHON_COPIERS, JAVA_COPIER)
COUNT = len(COPIERS)
RECORDS = 100_000
KILLS = 20


def run(seed: int) -> dict[str, Any]:
    copier = COPIERS[seed % len(COPIERS)]
    with tempfile.TemporaryDirectory(prefix="semel-copy-") as folder, running(semel(Path(folder))) as server:
        verdict = copy_under_kills(server, copier, Path(folder), seed=seed, records=RECORDS, kills=KILLS)
        return {**to_json(verdict), "broker": "" if verdict.passed else server.printed()}
