"""Runs a real broker under load while its disk fails several times, and stops it during the last failure.

After each failure the broker must continue without a restart. SIGTERM must end the process in time in spite of the
disk. Then it is started again, and every acknowledged and committed record must be there, once and in order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random

from tools.disk_trouble import in_trouble
from tools.history import anomalies
from tools.load import Load, create_topic, read_back
from tools.server import Server
from tools.transactional_load import TransactionalLoad

STOP_SECONDS_MAX = 10.0
_PARTITIONS = 4
_TOPIC, _TRANSACTIONS = "disk", "transactions"


@dataclass(frozen=True, slots=True)
class DiskRun:
    kind: str
    troubles: int
    sent: int
    acknowledged: int
    refused: int
    transactions: int
    stop_seconds: float
    tracebacks: int
    traceback: str
    anomalies: tuple[str, ...]

    @property
    def passed(self) -> bool:
        sound = not self.anomalies and not self.tracebacks and not self.refused
        return sound and self.acknowledged > 0 and self.transactions > 0 and self.stop_seconds <= STOP_SECONDS_MAX


def disk_in_trouble(server: Server, kind: str, *, seed: int, troubles: int) -> DiskRun:
    random = Random(seed)
    small_segments = {"segment.bytes": str(1024 * 1024)}
    create_topic(server.bootstrap_servers, _TOPIC, partitions=_PARTITIONS, config=small_segments)
    create_topic(server.bootstrap_servers, _TRANSACTIONS, partitions=2)
    load = Load(server.bootstrap_servers, _TOPIC, partitions=_PARTITIONS, producers=2, seed=seed)
    transactions = TransactionalLoad(server.bootstrap_servers, _TRANSACTIONS)
    load.start()
    transactions.start()
    try:
        for _ in range(troubles):
            load.wait_for_acknowledged(load.acknowledged() + random.randint(50, 1000))
            with in_trouble(server, kind, random):
                time.sleep(random.uniform(0.1, 3.0))
            load.wait_for_acknowledged(load.acknowledged() + 100)
        with in_trouble(server, kind, random):
            time.sleep(random.uniform(0.0, 1.0))
            began = time.monotonic()
            server.stop()
            stop_seconds = time.monotonic() - began
        server.start()
        load.wait_for_acknowledged(load.acknowledged() + 100)
        committed = len(transactions.committed)
        while len(transactions.committed) <= committed:
            time.sleep(0.01)
    finally:
        load.finish()
        transactions.finish()
    found = [str(each) for each in anomalies(load.history, read_back(server.bootstrap_servers, _TOPIC, partitions=4))]
    printed = server.printed(10_000_000)
    return DiskRun(
        kind=kind,
        troubles=troubles + 1,
        sent=len(load.history.sent),
        acknowledged=len(load.history.acknowledged),
        refused=len(load.history.refused),
        transactions=len(transactions.committed),
        stop_seconds=round(stop_seconds, 2),
        tracebacks=printed.count("Traceback"),
        traceback=printed[at:][:3000] if (at := printed.find("Traceback")) >= 0 else "",
        anomalies=tuple(found + transactions.anomalies()),
    )
