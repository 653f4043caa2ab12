"""How much of the machine others used during a measurement.

A benchmark on a shared machine cannot keep others away, but it can notice them: processor time that went neither to
this process nor to a broker under test is counted, kept with the figure, and a round that was disturbed is repeated
while there is time for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from tools.server import Server

# What an idle system does on its own, and the kernel on our behalf, stays below this.
TOLERATED_PERCENT = 12.0


class Disturbance:
    """Started when it is made; ``percent()`` is the share of all cores that others have used since."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._servers = list(servers)
        self._started = time.perf_counter()
        self._before = self._others_seconds()

    def percent(self) -> float:
        elapsed_s = (time.perf_counter() - self._started) * len(os.sched_getaffinity(0))
        return max(0.0, 100 * (self._others_seconds() - self._before) / elapsed_s)

    def _others_seconds(self) -> float:
        own = os.times()
        ours = own.user + own.system + sum(server.cpu_seconds() for server in self._servers)
        return _busy_seconds() - ours


def _busy_seconds() -> float:
    """Processor time that was used by anybody, or taken by another guest of the same host."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
