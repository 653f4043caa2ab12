"""Where processor time went during a measurement: to the broker, to the load generator, or to others.

The first two say what limited a figure: a broker that is not busy did not. The third says whether to believe it. A
benchmark on a shared machine cannot keep others away, but it can notice them: what went neither to this process nor to
a broker under test is counted and kept with the figure, and a disturbed round is repeated while there is time for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.server import Server

# What an idle system does on its own, and the kernel on our behalf, stays below this share of all cores.
TOLERATED_PERCENT = 12.0


@dataclass(frozen=True, slots=True)
class Usage:
    """In per cent of one core; 200 is two cores."""

    broker_percent: float
    client_percent: float

    def __str__(self) -> str:
        return f"broker {self.broker_percent:.0f} %, client {self.client_percent:.0f} % of a core"


class Watch:
    """Started when it is made."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._started = time.perf_counter()
        self._broker, self._client = server.cpu_seconds(), _own_seconds()

    def usage(self) -> Usage:
        elapsed_s = time.perf_counter() - self._started
        broker, client = self._server.cpu_seconds() - self._broker, _own_seconds() - self._client
        return Usage(100 * broker / elapsed_s, 100 * client / elapsed_s)

    def broker_seconds(self) -> float:
        """Processor time that the broker has used so far."""
        return self._server.cpu_seconds() - self._broker


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
        return _busy_seconds() - _own_seconds() - sum(server.cpu_seconds() for server in self._servers)


def _own_seconds() -> float:
    own = os.times()
    return own.user + own.system


def _busy_seconds() -> float:
    """Processor time that was used by anybody, or taken by another guest of the same host."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
