"""The verdict of a campaign, ``benchmarks/results/campaign-NAME.json``: what passed, what failed, and on which source.

A campaign may take more hours than a machine is there for. ``--continue`` goes on from the committed verdict: what
passed on an older source does not run again, and ``sources`` says which seeds passed on which source. A seed that has
failed since is in ``failed_seeds``, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def verdict_of(name: str, lines: Iterable[Line], earlier: Mapping[str, Any], kept_max: int) -> Line:
    """Return the verdict of these results, one of each seed, added to what had passed by an earlier verdict.

    It says how many passed, the failed seeds, the totals of what passed, and each result if there are at most
    ``kept_max``.
    """
    lines = list(lines)
    known = what_passed(earlier) - {line["seed"] for line in lines if not line["passed"]}
    lines = sorted((line for line in lines if line["seed"] not in known), key=lambda line: line["seed"])
    before = {seed: source for source, seeds in earlier.get("sources", {}).items() for seed in seeds_of(seeds)}
    passed = {line["seed"]: line for line in lines if line["passed"]}
    tested = before | {seed: line["source"] for seed, line in passed.items()}
    failed = {*earlier.get("failed_seeds", ()), *(line["seed"] for line in lines)} - passed.keys()
    first = [line for seed, line in passed.items() if seed not in before]
    results = [*(line for line in earlier.get("results", ()) if line["seed"] in known), *map(_in_short, lines)]
    return {
        "campaign": name,
        "runs": len(tested.keys() | failed),
        "passed": len(tested.keys() - failed),
        "failed_seeds": sorted(failed),
        "seconds": round(earlier.get("seconds", 0) + sum(line["seconds"] for line in first)),
        "sources": {source: text_of(_keys(tested, source)) for source in dict.fromkeys(tested.values())},
        "totals": dict(sorted(totals(first, earlier.get("totals", {})).items())),
        "results": results if len(tested.keys() | failed) <= kept_max else [],
    }


def what_passed(verdict: Mapping[str, Any]) -> set[int]:
    """Return the seeds that have passed, on any source, and have not failed since."""
    passed = {seed for seeds in verdict.get("sources", {}).values() for seed in seeds_of(seeds)}
    return passed.difference(verdict.get("failed_seeds", ()))


def totals(lines: Iterable[Mapping[str, Any]], earlier: Mapping[str, int] | None = None) -> Counter[str]:
    """Return the totals of all whole numbers, also one level down: the sums, or the largest of times and of memory."""
    added = Counter(earlier or {})
    for line in lines:
        for name, value in line.items():
            inner = value.items() if isinstance(value, dict) else [(name, value)]
            for key, count in inner:
                if type(count) is int and key != "seed":
                    added[key] = max(added[key], count) if key.endswith(("_ms", "_mb")) else added[key] + count
    return added


def read_verdict(file: Path) -> Line:
    """Return the verdict in a file, or nothing if there is none that names the source of each seed."""
    found: Line = json.loads(file.read_text()) if file.exists() else {}
    return found if "sources" in found else {}


def text_of(seeds: Iterable[int]) -> str:
    """Return seeds as ``0-994, 996``."""
    ranges: list[tuple[int, int]] = []
    for seed in sorted(seeds):
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1] = (ranges[-1][0], seed)
        else:
            ranges.append((seed, seed))
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def seeds_of(text: str) -> list[int]:
    """Return the seeds of such a text."""
    bounds = [part.split("-") for part in text.split(", ") if part]
    return [seed for found in bounds for seed in range(int(found[0]), int(found[-1]) + 1)]


def _keys(tested: Mapping[int, str], source: str) -> list[int]:
    return [seed for seed, of in tested.items() if of == source]


def _in_short(line: Mapping[str, Any]) -> Line:
    """Return the result without long texts, such as the output: they are needed only to find the cause of a failure."""
    return {name: value for name, value in line.items() if not isinstance(value, str) or 0 < len(value) <= 100}
