"""Kill a broker with SIGKILL under load, again and again, and judge what it kept.

The moments are chosen by a seed, in terms of progress and not of time: a kill falls after so many further
acknowledgements, sometimes a second one while the broker is still recovering from the first. Then the faults stop,
everything sent must be answered, and the log is read back and judged.
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
    """The verdict on ``kills`` kills of a server that runs; it runs again when this returns."""
    chosen = random.Random(seed)
    # Small segments, so that kills fall into rolls too.
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
