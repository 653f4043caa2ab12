"""The vocabulary of a benchmark: rows, what a measurement yields, how much effort it may take.

A workload measures one contestant once and yields a figure for one or several rows. Rounds go around the contestants
(A B C A B C), so that a slow minute of the machine falls on all of them, and the last round is the one that counts:
before it, Java has compiled and the caches are warm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contestants import Contestant
from benchmarks.processors import Usage
from tools.server import Server


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    ``aim`` is how many times better than Apache Kafka Semel means to be, ``aim_durable`` the same with flush=commit;
    ``limit`` is a figure it means not to exceed.
    """

    key: str
    title: str
    unit: str
    higher_is_better: bool = True
    aim: float | None = None
    aim_durable: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """How long things take: the full run, or ``--quick``, whose figures mean nothing but that it works.

    A disturbed measurement is repeated, at most so often, while the run is younger than ``repeats_until_s``.
    """

    seconds: float
    latency_seconds: float
    recovery_bytes: int
    known_ids: int
    rounds: int = 2
    starts: int = 3
    tests: int = 50
    repeats_max: int = 2
    repeats_until_s: float = 480.0


FULL = Effort(seconds=4.0, latency_seconds=12.0, recovery_bytes=1_000_000_000, known_ids=1_000_000)
QUICK = Effort(
    seconds=0.6, latency_seconds=1.0, recovery_bytes=50_000_000, known_ids=20_000, starts=1, tests=5, repeats_max=0
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures by row, and where processor time went meanwhile."""

    figures: Mapping[str, float]
    usage: Usage | None = None
    disturbed_percent: float | None = None
    notes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """``measure(server, effort)`` on servers that stay up, one after the other."""

    name: str
    rows: tuple[Row, ...]
    measure: Callable[[Server, Effort], Measured]
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class LifecycleWorkload:
    """``measure(contestant, folder, effort)`` with a server of its own, started and ended by the measurement."""

    name: str
    rows: tuple[Row, ...]
    measure: Callable[[Contestant, Path, Effort], Measured]
    only: frozenset[str] | None = None
