"""This version beside earlier ones: what changes have cost, or brought.

All brokers stay up and are measured in turns (A B A B ...), with the same client, that of this version. The median of
the rounds counts, and the spread of the rounds is shown beside it: a difference that is smaller than the spread says
nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.contestants import Contestant
from benchmarks.measuring import Effort, Row
from benchmarks.plan import ROWS
from benchmarks.running import Results, run
from benchmarks.table import shown
from tools.brokers import semel
from tools.server import Server

ROUNDS = 6
FLUSHES = ("os", "commit")
_NOW = "now"


def compare(checkouts: Sequence[Path], effort: Effort, only: str) -> int:
    """Measure all versions with both ways of flushing, and print a table. 2: one of them is no checkout."""
    for checkout in checkouts:
        if not (checkout / "src" / "semel").is_dir():
            print(f"{checkout} is no checkout of this repository: it has no src/semel")
            return 2
    earlier = {checkout.resolve().name: checkout for checkout in checkouts}
    versions = {**earlier, _NOW: Path(__file__).parent.parent}
    if len(versions) <= len(checkouts):
        print(f"checkouts are told apart by the names of their folders: {', '.join(map(str, checkouts))}")
        return 2
    results = Results()
    contestants = [
        Contestant(_name(version, flush), "", _maker(flush, checkout))
        for flush in FLUSHES
        for version, checkout in versions.items()
    ]
    with tempfile.TemporaryDirectory(prefix="semel-bench-", ignore_cleanup_errors=True) as folder:
        run(contestants, replace(effort, rounds=ROUNDS, repeats_max=0), Path(folder), results, only)
    print(f"\n{table(results, list(earlier))}")
    return 0


def table(results: Results, earlier: Sequence[str]) -> str:
    """One line per row, way of flushing and earlier version; above 1 is better than before."""
    lines = [
        "| row | flush | before | | now | | now : before | spread of the rounds |",
        "|---|---|---|---:|---:|---|---:|---:|",
    ]
    for row in ROWS:
        for flush in FLUSHES:
            figures = results.figures.get(row.key, {})
            now = figures.get(_name(_NOW, flush), [])
            for version in earlier:
                before = figures.get(_name(version, flush), [])
                if before and now:
                    lines.append(_line(row, flush, version, before, now))
    return "\n".join(lines) + "\n"


def _line(row: Row, flush: str, version: str, before: list[float], now: list[float]) -> str:
    old, new = median(before), median(now)
    better = new / old if row.higher_is_better else old / new
    spread = max((max(rounds) - min(rounds)) / median(rounds) for rounds in (before, now))
    cells = (row.title, flush, version, shown(old), shown(new), row.unit, f"{better:.2f} x", f"{spread:.0%}")
    return "| " + " | ".join(cells) + " |"


def _name(version: str, flush: str) -> str:
    return f"{version}, flush={flush}"


def _maker(flush: str, checkout: Path) -> Callable[[Path], Server]:
    return partial(semel, settings={"flush": flush}, checkout=checkout)
