"""Measures how long a partition and a coordinator are unavailable when one of three brokers is killed, stopped or
paused.

Producers with a short request timeout write to every partition, one of them in transactions, without a pause. The
outage is the longest time between two acknowledgements that begins before the limit (``MS_MAX``) has passed after the
strike. Every broker is struck in turn, and started again as soon as it has ended. The longest time that begins later is
in the result, too, but has no limit: a starting process takes processor time from all others on a small machine.
"""

from __future__ import annotations

import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from semel import blocking
from semel.errors import KafkaError
from tools.load import create_topic
from tools.local_cluster import BROKERS, SESSION_TIMEOUT_MS, Strike, StruckCluster, struck_cluster
from tools.patience import PATIENCE_S, wait_until

COUNT: Final = 9
PARTITIONS: Final = 6
# The tick time of ZooKeeper, by which sessions can expire late.
TICK_MS: Final = 2_000
MS_MAX: Final = {
    Strike.KILL: 2_000,
    Strike.STOP: 300,
    Strike.PAUSE: SESSION_TIMEOUT_MS + TICK_MS + 1_000,
}
_BEFORE_S: Final = 1.0
_AFTER_S: Final = 5.0


def run(seed: int) -> dict[str, Any]:
    strike = tuple(Strike)[seed % len(Strike)]
    with (
        tempfile.TemporaryDirectory(prefix="semel-outages-") as folder,
        struck_cluster(Path(folder), strike) as cluster,
    ):
        create_topic(cluster.bootstrap_servers, "probed", partitions=PARTITIONS, replicas=BROKERS)
        outages: dict[str, list[int]] = {"partition": [], "coordinator": []}
        returns_ms: list[int] = []
        probes = [_Probe(cluster, partition) for partition in range(PARTITIONS)]
        probes.append(_Probe(cluster, 0, transactional_id="probe"))
        for probe in probes:
            probe.start()
        try:
            for node_id in range(1, BROKERS + 1):
                wait_until(lambda: all(probe.is_at_work for probe in probes), "a probe does not get on")
                time.sleep(_BEFORE_S)
                struck_s = time.monotonic()
                cluster.strike(node_id)
                cluster.start()
                time.sleep(_AFTER_S)
                aim_s = struck_s + MS_MAX[strike] / 1000
                for probe in probes:
                    outages[probe.kind].append(probe.longest_gap_ms(struck_s - _BEFORE_S, aim_s))
                returns_ms.append(max(probe.longest_gap_ms(aim_s, time.monotonic()) for probe in probes))
        finally:
            for probe in probes:
                probe.end()
    longest = max(max(found) for found in outages.values())
    return {
        "passed": longest <= MS_MAX[strike],
        "strike": strike,
        "longest_ms": longest,
        "partition_ms": sorted(outages["partition"]),
        "coordinator_ms": sorted(outages["coordinator"]),
        "return_ms": sorted(returns_ms),
    }


class _Probe(threading.Thread):
    """Writes records or transactions one after the other, and remembers when each is acknowledged."""

    def __init__(self, cluster: StruckCluster, partition: int, transactional_id: str | None = None) -> None:
        super().__init__(name=f"probe {partition} {transactional_id}", daemon=True)
        self.kind = "partition" if transactional_id is None else "coordinator"
        self._servers = cluster.bootstrap_servers
        self._partition = partition
        self._transactional_id = transactional_id
        self._acknowledged_s: list[float] = []
        self._is_over = False

    @property
    def is_at_work(self) -> bool:
        return bool(self._acknowledged_s) and time.monotonic() - self._acknowledged_s[-1] < 1

    def longest_gap_ms(self, since_s: float, until_s: float) -> int:
        """Return the longest time between two acknowledgements that begins between these two moments."""
        moments = [moment for moment in tuple(self._acknowledged_s) if moment >= since_s]
        gaps_s = [after - before for before, after in pairwise(moments) if before < until_s]
        return round(1000 * max(gaps_s, default=PATIENCE_S))

    def end(self) -> None:
        self._is_over = True
        self.join(PATIENCE_S)

    def run(self) -> None:
        while not self._is_over:
            try:
                self._produce()
            except KafkaError:
                continue  # Its transaction was aborted, or a record expired: continue with a new producer.

    def _produce(self) -> None:
        with blocking.Producer(
            bootstrap_servers=self._servers,
            transactional_id=self._transactional_id,
            request_timeout_ms=500,
            retry_backoff_ms=20,
            retry_backoff_max_ms=50,
        ) as producer:
            while not self._is_over:
                if self._transactional_id is None:
                    producer.send("probed", b"probe", partition=self._partition).result(PATIENCE_S)
                else:
                    with producer.transaction():
                        producer.send("probed", b"probe", partition=self._partition)
                self._acknowledged_s.append(time.monotonic())
