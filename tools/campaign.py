"""Long runs of what ``make test`` runs short: ``python -m tools.campaign NAME``.

A campaign is a module ``tools/campaigns/NAME.py`` with ``COUNT`` and ``run(seed) -> dict`` whose ``passed`` is the
verdict. Every result is one line of ``.cache/campaigns/NAME.jsonl``, written before the next run starts, with the hash
of the source it is true of: an interrupted campaign goes on where it was, and a changed source starts it again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

import semel

ROOT = Path(__file__).resolve().parent.parent


class Campaign(Protocol):
    COUNT: int
    run: Callable[[int], dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=names())
    parser.add_argument("--count", type=int, help="how many seeds, from 0 (default: the campaign's own number)")
    parser.add_argument("--seed", type=int, help="run this one seed only, and again if it ran before")
    options = parser.parse_args()
    campaign = cast(Campaign, importlib.import_module(f"tools.campaigns.{options.name}"))
    results = results_file(options.name)
    results.parent.mkdir(parents=True, exist_ok=True)
    source = source_hash()
    if options.seed is not None:
        return 0 if run_seed(campaign, options.name, options.seed, source, results) else 1
    count = options.count if options.count is not None else campaign.COUNT
    return 0 if run_all(campaign, options.name, count, source, results) else 1


def run_all(campaign: Campaign, name: str, count: int, source: str, results: Path) -> bool:
    earlier = {line["seed"]: line["passed"] for line in read(results) if line["source"] == source}
    print(f"campaign {name}: {count} seeds, {len(earlier)} of them known; results in {results}", flush=True)
    verdicts = [earlier.get(seed) or run_seed(campaign, name, seed, source, results) for seed in range(count)]
    print(f"campaign {name}: {sum(verdicts)} of {count} passed")
    return all(verdicts)


def run_seed(campaign: Campaign, name: str, seed: int, source: str, results: Path) -> bool:
    started = time.monotonic()
    try:
        result = campaign.run(seed)
    except Exception as error:
        result = {"passed": False, "error": f"{type(error).__name__}: {error}"}
    line = {"seed": seed, "source": source, "seconds": round(time.monotonic() - started, 2), **result}
    with results.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    print(f"  seed {seed}: {'passed' if result['passed'] else 'FAILED'}  {json.dumps(line)}", flush=True)
    if not result["passed"]:
        print(f"  again: {sys.executable} -m tools.campaign {name} --seed {seed}", flush=True)
    return bool(result["passed"])


def names() -> list[str]:
    return sorted(path.stem for path in (ROOT / "tools" / "campaigns").glob("*.py") if path.stem != "__init__")


def results_file(name: str) -> Path:
    return Path(os.environ.get("SEMEL_CACHE") or ROOT / ".cache") / "campaigns" / f"{name}.jsonl"


def read(results: Path) -> list[dict[str, Any]]:
    if not results.exists():
        return []
    lines = []
    for text in results.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue  # The campaign was interrupted while it wrote this line; that seed runs again.
    return lines


def source_hash() -> str:
    """Of everything a verdict rests on: the product, from wherever it is imported, and the tools that judge it."""
    digest = hashlib.sha256()
    for root in (Path(semel.__file__).parent, ROOT / "tools"):
        for path in sorted(root.rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here")
        sys.exit(130)
