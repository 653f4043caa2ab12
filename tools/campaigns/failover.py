"""A transactional copy with three replicated broker processes, which are killed or paused one after the other.

Thirty times SIGKILL and thirty times SIGSTOP, with our client and with confluent-kafka in turn: a partition's leader,
each coordinator and the controller.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tools.copier_process import PYTHON_COPIERS
from tools.copy_run import GROUP, copy_under_kills, target_of, transactional_id_of
from tools.local_cluster import BROKERS, Strike, struck_cluster
from tools.run_result import to_json

COPIERS = tuple(copier for copier in PYTHON_COPIERS if copier.name in ("semel", "confluent-kafka"))
STRIKES = (Strike.KILL, Strike.PAUSE)
KILLS = 5
COUNT = 6 * len(STRIKES)
RECORDS = 40_000
# A transaction must not time out while a coordinator is paused: otherwise the client would have to start again.
TRANSACTION_TIMEOUT_MS = 40_000


def run(seed: int, *, records: int = RECORDS, kills: int = KILLS) -> dict[str, Any]:
    strike, copier = STRIKES[seed % len(STRIKES)], COPIERS[seed // len(STRIKES) % len(COPIERS)]
    with (
        tempfile.TemporaryDirectory(prefix="semel-failover-") as folder,
        struck_cluster(Path(folder), strike) as cluster,
    ):
        cluster.topic, cluster.group = target_of(copier), GROUP
        cluster.transactional_id = transactional_id_of(copier)
        verdict = copy_under_kills(
            cluster,
            copier,
            Path(folder),
            seed=seed,
            records=records,
            kills=kills,
            replicas=BROKERS,
            hang_s_max=60.0,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        return {**to_json(verdict), "strike": strike, "roles": cluster.struck_roles}
