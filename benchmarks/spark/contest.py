"""Both connectors, in turn, on one broker: rounds that alternate, every figure kept, and a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.spark.connector import Connector
from benchmarks.spark.data import PARTITIONS
from benchmarks.spark.measuring import WORKLOADS, Amount, SparkRow
from benchmarks.spark.queries import SEMEL, SPARK
from benchmarks.spark.session import Session
from benchmarks.table import shown
from benchmarks.topics import fresh_topic
from tools.brokers import semel
from tools.server import running

GUARANTEES = {SPARK: "at-least-once", SEMEL: "exactly-once"}


@dataclass(slots=True)
class SparkResults:
    """By row and connector, one figure for each round. The best one counts: others only ever take time away."""

    spark_version: str = ""
    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def best(self, row: SparkRow, connector: str) -> float | None:
        figures = self.rounds.get(row.key, {}).get(connector)
        return None if not figures else max(figures) if row.higher_is_better else min(figures)


def contest(connector: Connector, amount: Amount, folder: Path, only: str = "") -> SparkResults:
    results = SparkResults()
    chosen = [workload for workload in WORKLOADS if any(only in row.key for row in workload.rows)]
    started = time.monotonic()
    with ExitStack() as stack:
        server = stack.enter_context(running(semel(folder / "broker", settings={"flush": "os"})))
        made = [Session(name, connector, folder / f"session-{number}") for number, name in enumerate(GUARANTEES)]
        sessions = [stack.enter_context(session) for session in made]
        results.spark_version = sessions[0].spark_version
        for workload in chosen:
            with fresh_topic(server, PARTITIONS) as topic:
                workload.prepare(server, topic, amount)
                for number in range(1, amount.rounds + 1):
                    for session in sessions:
                        figures = workload.measure(session, server, topic, folder, amount)
                        for row in workload.rows:
                            results.rounds.setdefault(row.key, {}).setdefault(session.name, []).append(figures[row.key])
                        told = ", ".join(f"{shown(figures[row.key])} {row.unit}" for row in workload.rows)
                        title = workload.rows[0].title
                        print(
                            f"[{time.monotonic() - started:4.0f} s] {title}, {number}, {session.name}: {told}",
                            flush=True,
                        )
    return results


def markdown(results: SparkResults) -> str:
    rows = [row for workload in WORKLOADS for row in workload.rows if row.key in results.rounds]
    heads = ["", *(f"{name}, {guarantee}" for name, guarantee in GUARANTEES.items()), "", "ratio", "aim"]
    lines = [heads, ["---", "---:", "---:", "---", "---:", "---"], *(_cells(row, results) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(row: SparkRow, results: SparkResults) -> Sequence[str]:
    theirs, ours = results.best(row, SPARK), results.best(row, SEMEL)
    assert theirs is not None
    assert ours is not None
    title = row.title if row.higher_is_better else f"{row.title} (less is better)"
    ratio = ours / theirs if row.higher_is_better else theirs / ours
    missed = (row.aim is not None and ratio < row.aim) or (
        row.excess_max is not None and ours - theirs > row.excess_max
    )
    aim = f"{row.aim:g} x" if row.aim is not None else ""
    if row.excess_max is not None:
        aim = f"at most {row.excess_max:g} {row.unit} more"
    return (title, shown(theirs), shown(ours), row.unit, f"{ratio:.2f} x{' (missed)' if missed else ''}", aim)
