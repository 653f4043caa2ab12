"""Going around the contestants, round by round, and keeping every figure of every round."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.contestants import Contestant
from benchmarks.measuring import Effort, LifecycleWorkload, Measured, Row, Workload
from benchmarks.plan import LIFECYCLE, MEMORY_AFTER_LOAD, THROUGHPUT
from benchmarks.processors import TOLERATED_PERCENT, Disturbance, Usage
from benchmarks.table import shown
from tools.server import Server, running


@dataclass(slots=True)
class Results:
    """Figures by row and contestant, one per round; the last one counts."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    usage: dict[str, dict[str, Usage]] = field(default_factory=dict)
    disturbed_percent: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, contestant: str, measured: Measured) -> None:
        for key, figure in measured.figures.items():
            self.figures.setdefault(key, {}).setdefault(contestant, []).append(figure)
            if measured.usage is not None:
                self.usage.setdefault(key, {})[contestant] = measured.usage
            if measured.disturbed_percent is not None:
                self.disturbed_percent.setdefault(key, {})[contestant] = round(measured.disturbed_percent)

    def final(self, key: str, contestant: str) -> float | None:
        rounds = self.figures.get(key, {}).get(contestant)
        return rounds[-1] if rounds else None

    def disturbed(self) -> set[str]:
        """Rows for which others used more of the machine than is tolerated, while any contestant was measured."""
        return {
            key
            for key, percents in self.disturbed_percent.items()
            if any(percent > TOLERATED_PERCENT for percent in percents.values())
        }


class Progress:
    """One line per measurement, as it happens."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._started = time.monotonic()

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def tell(self, what: str, round_number: int, contestant: str, rows: Sequence[Row], measured: Measured) -> None:
        self._done += 1
        figures = ", ".join(f"{shown(measured.figures[row.key])} {row.unit}" for row in rows)
        remarks = "" if measured.usage is None else f"  ({measured.usage})"
        if measured.disturbed_percent is not None and measured.disturbed_percent > TOLERATED_PERCENT:
            remarks += f"  disturbed: others used {measured.disturbed_percent:.0f} % of the machine"
        minutes, seconds = divmod(int(self.elapsed_s()), 60)
        print(
            f"[{self._done:3}/{self._total} {minutes:2}:{seconds:02}] {what}, round {round_number}, "
            f"{contestant}: {figures}{remarks}",
            flush=True,
        )


def run(contestants: Sequence[Contestant], effort: Effort, folder: Path, results: Results, only: str = "") -> None:
    """Measure everything whose rows match ``only`` (parts of keys, with commas), into ``results`` as it comes."""
    throughput = [workload for workload in THROUGHPUT if _is_meant(workload.rows, only)]
    lifecycle = [workload for workload in LIFECYCLE if _is_meant(workload.rows, only)]
    everything: list[Workload | LifecycleWorkload] = [*throughput, *lifecycle]
    total = effort.rounds * sum(len(_taking_part(workload, contestants)) for workload in everything)
    progress = Progress(total)
    if throughput:
        with ExitStack() as stack:
            servers = {
                one.name: stack.enter_context(running(one.make(folder / f"served-{number}")))
                for number, one in enumerate(contestants)
            }
            for workload in throughput:
                _rounds(workload, contestants, servers, effort, results, progress)
            if not only:
                for name, server in servers.items():
                    results.add(name, Measured({MEMORY_AFTER_LOAD.key: server.resident_bytes() / 1e6}))
    for life in lifecycle:
        _lifecycle_rounds(life, contestants, effort, folder, results, progress)


def _is_meant(rows: Sequence[Row], only: str) -> bool:
    return any(part in row.key for part in only.split(",") for row in rows)


def _rounds(
    workload: Workload,
    contestants: Sequence[Contestant],
    servers: dict[str, Server],
    effort: Effort,
    results: Results,
    progress: Progress,
) -> None:
    for number in range(1, effort.rounds + 1):
        for one in _taking_part(workload, contestants):
            repeats = effort.repeats_max if progress.elapsed_s() < effort.repeats_until_s else 0
            measured = _least_disturbed(workload, servers[one.name], servers.values(), effort, repeats)
            results.add(one.name, measured)
            progress.tell(workload.name, number, one.name, workload.rows, measured)


def _least_disturbed(
    workload: Workload, server: Server, servers: Iterable[Server], effort: Effort, repeats: int
) -> Measured:
    """The first measurement that others left alone, or the one they disturbed least."""
    tried: list[Measured] = []
    for _ in range(1 + repeats):
        disturbance = Disturbance(servers)
        measured = workload.measure(server, effort)
        tried.append(replace(measured, disturbed_percent=disturbance.percent()))
        if disturbance.percent() <= TOLERATED_PERCENT:
            break
    return min(tried, key=lambda one: one.disturbed_percent or 0.0)


def _lifecycle_rounds(
    workload: LifecycleWorkload,
    contestants: Sequence[Contestant],
    effort: Effort,
    folder: Path,
    results: Results,
    progress: Progress,
) -> None:
    for number in range(1, effort.rounds + 1):
        for place, one in enumerate(_taking_part(workload, contestants)):
            home = folder / f"{workload.rows[0].key}-{number}-{place}"
            measured = workload.measure(one, home, effort)
            results.add(one.name, measured)
            progress.tell(workload.name, number, one.name, workload.rows, measured)


def _taking_part(workload: Workload | LifecycleWorkload, contestants: Sequence[Contestant]) -> list[Contestant]:
    return [one for one in contestants if workload.only is None or one.name in workload.only]
