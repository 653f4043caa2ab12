"""Measures how long three thousand partitions have no leader when the broker that led all of them is killed.

Time counts from the kill, so it includes the detection: the other brokers notice that connections are refused. A
partition has a leader again when a record that was sent to it after the kill is acknowledged with ``acks=all``. So the
time includes that a client gets three thousand new leaders. The time until Metadata names them is in the result, too.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

from semel import blocking
from tools.local_cluster import BROKERS, Strike, StruckCluster, struck_cluster
from tools.patience import PATIENCE_S, wait_until

COUNT: Final = 3
PARTITIONS: Final = 3_000
MS_MAX: Final = 2_000
_TOPIC: Final = "many"


def run(seed: int) -> dict[str, Any]:
    first = seed % BROKERS + 1
    others = [node_id for node_id in range(1, BROKERS + 1) if node_id != first]
    with (
        tempfile.TemporaryDirectory(prefix="semel-leaderships-") as folder,
        struck_cluster(Path(folder), Strike.KILL) as cluster,
        blocking.Admin(bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=int(PATIENCE_S * 1000)) as admin,
        blocking.Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            request_timeout_ms=1_000,
            retry_backoff_ms=20,
            retry_backoff_max_ms=50,
        ) as producer,
    ):
        # Each of the two other brokers becomes the leader of half of the partitions.
        assignments = {number: [first, *others[number % 2 :], *others[: number % 2]] for number in range(PARTITIONS)}
        admin.topics.create(_TOPIC, assignments=assignments)
        _send_to_each(producer)
        wait_until(cluster.is_whole, "not all replicas are in sync")
        struck_s = time.monotonic()
        cluster.strike(first)
        last_acknowledged_s = _send_to_each(producer)
        elected_s = _elected(cluster, first)
        cluster.start()
    elapsed_ms = round(1000 * (last_acknowledged_s - struck_s))
    return {
        "passed": elapsed_ms <= MS_MAX,
        "partitions": PARTITIONS,
        "last_leader_ms": elapsed_ms,
        "metadata_told_by_ms": round(1000 * (elected_s - struck_s)),
    }


def _send_to_each(producer: blocking.Producer) -> float:
    """Send a record to each partition. Return the time at which the last one was acknowledged."""
    sent = [producer.send(_TOPIC, b"record", partition=number) for number in range(PARTITIONS)]
    for future in sent:
        future.result(PATIENCE_S)
    return time.monotonic()


def _elected(cluster: StruckCluster, former: int) -> float:
    """Return a time at which Metadata named another leader for each partition.

    It is an upper bound, because Metadata is requested only after the last acknowledgement.
    """
    wait_until(lambda: former not in cluster.leaders_of(_TOPIC), "a partition is still led by the broker that is gone")
    return time.monotonic()
