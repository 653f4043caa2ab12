"""Kills a broker with SIGKILL under load several times, and checks which records it has.

A seed chooses when to kill, by progress and not by time: after a random number of further acknowledgements, sometimes a
second time while the broker is still recovering from the first kill. Then the faults stop, every record that was sent
must be answered, and the log is read and checked.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from tools.history import Anomaly, anomalies
from tools.load import Load, create_topic, read_back
from tools.server import Server

_CODECS = ("none", "none", "lz4", "zstd")
_PARTITIONS = 4
_PRODUCERS = 2


@dataclass(frozen=True, slots=True)
class KillRun:
    seed: int
    kills: int
    sent: int
    acknowledged: int
    refused: int
    seconds_to_serve_max: float
    anomalies: tuple[Anomaly, ...]

    @property
    def passed(self) -> bool:
        return not self.anomalies and not self.refused and self.acknowledged > 0


def kill_under_load(server: Server, *, seed: int, kills: int, topic: str = "killed") -> KillRun:
    """Kill a running server ``kills`` times and return the verdict. The server runs again when this returns."""
    chosen = random.Random(seed)
    # Small segments, so that kills happen while segments are rolled, too.
    create_topic(server.bootstrap_servers, topic, partitions=_PARTITIONS, config={"segment.bytes": str(1024 * 1024)})
    load = Load(
        server.bootstrap_servers,
        topic,
        partitions=_PARTITIONS,
        producers=_PRODUCERS,
        seed=seed,
        codec=chosen.choice(_CODECS),
    )
    load.start()
    slowest = 0.0
    try:
        for _ in range(kills):
            load.wait_for_acknowledged(load.acknowledged() + chosen.randint(50, 4_000))
            server.kill()
            if chosen.random() < 0.25:
                server.launch_process()
                time.sleep(chosen.uniform(0.0, 0.3))
                server.kill()
            slowest = max(slowest, server.start())
        load.wait_for_acknowledged(load.acknowledged() + 100)
    finally:
        load.finish()
    found = read_back(server.bootstrap_servers, topic, partitions=_PARTITIONS)
    history = load.history
    return KillRun(
        seed=seed,
        kills=kills,
        sent=len(history.sent),
        acknowledged=len(history.acknowledged),
        refused=len(history.refused),
        seconds_to_serve_max=round(slowest, 3),
        anomalies=tuple(anomalies(history, found)),
    )
