"""Long runs of what ``make test`` runs short: ``python -m tools.campaign [NAME]``; without a name, all of them in turn.

A campaign is a module ``tools/campaigns/NAME.py`` with ``COUNT`` and ``run(seed) -> dict``, whose ``passed`` is the
verdict. It may have ``SOURCES``, folders on which its result depends besides the product and these tools; ``AT_ONCE``,
how many seeds may run at the same time, each in a process of its own; and ``RESULTS_KEPT_MAX``, if its verdict should
list each of more than twenty runs. Every result is one line of ``.cache/campaigns/NAME.jsonl``, written before the next
run starts, with the hash of the source that was tested: an interrupted campaign continues where it was, and after a
change of the source it starts again. A finished campaign writes its verdict to
``benchmarks/results/campaign-NAME.json``. With ``--continue`` a campaign goes on from that file, also on another
machine and after a change of the source, and writes it when it is interrupted, too.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import semel
from tools.verdicts import Line, read_verdict, verdict_of, what_passed

ROOT = Path(__file__).resolve().parent.parent


Run: TypeAlias = Callable[[int], dict[str, Any]]


class Campaign(Protocol):
    COUNT: int

    def run(self, seed: int, /) -> dict[str, Any]: ...


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="?", choices=names(), help="which one (default: all of them)")
    parser.add_argument("--count", type=int, help="how many seeds, from 0 (default: the campaign's own number)")
    parser.add_argument("--seed", type=int, help="run this one seed only, and again if it ran before")
    parser.add_argument(
        "--continue", dest="continued", action="store_true", help="leave out what the committed verdict says has passed"
    )
    options = parser.parse_args()
    if options.seed is not None and options.name is None:
        parser.error("--seed belongs to one campaign: which?")
    chosen = [options.name] if options.name else names()
    verdicts = [carry_out(name, options.count, options.seed, options.continued) for name in chosen]
    return 0 if all(verdicts) else 1


def carry_out(name: str, count: int | None, seed: int | None, continued: bool) -> bool:
    campaign = cast(Campaign, importlib.import_module(f"tools.campaigns.{name.replace('-', '_')}"))
    results = results_file(name)
    results.parent.mkdir(parents=True, exist_ok=True)
    source = source_hash(getattr(campaign, "SOURCES", ()))
    if seed is not None:
        return noted(name, source, results, result_of(campaign.run, seed))
    file = verdict_file(name)
    count = campaign.COUNT if count is None else count
    return run_all(campaign, name, count, source, results, file, continued=continued)


def run_all(
    campaign: Campaign, name: str, count: int, source: str, results: Path, verdict: Path, *, continued: bool = False
) -> bool:
    earlier = read_verdict(verdict) if continued else {}
    tested = None if continued else source
    latest = {line["seed"]: line["passed"] for line in _latest(results, tested)}
    known = {seed for seed in what_passed(earlier) | latest.keys() if latest.get(seed, True)}
    missing = [seed for seed in range(count) if seed not in known]
    print(f"campaign {name}: {count} seeds, {count - len(missing)} of them known; results in {results}", flush=True)
    failed = set(missing)
    try:
        for result in results_of(campaign.run, missing, getattr(campaign, "AT_ONCE", 1)):
            if noted(name, source, results, result):
                failed.remove(result["seed"])
    finally:
        found = verdict_of(name, _latest(results, tested), earlier, getattr(campaign, "RESULTS_KEPT_MAX", 20))
        if found["runs"] >= campaign.COUNT or continued:
            verdict.write_text(json.dumps(found, indent=2) + "\n")
            print(f"campaign {name}: verdict in {verdict}")
    print(f"campaign {name}: {count - len(failed)} of {count} passed")
    return not failed


def _latest(results: Path, source: str | None) -> list[Line]:
    """Return the latest result of each seed, on this source or on any."""
    return list({line["seed"]: line for line in read(results) if source in (None, line["source"])}.values())


def results_of(run: Run, seeds: list[int], at_once: int) -> Iterator[dict[str, Any]]:
    """Yield the results in the order of the seeds, also if several run at the same time."""
    if at_once == 1:
        yield from map(partial(result_of, run), seeds)
        return
    pool = ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn"))
    try:
        yield from pool.map(partial(result_of, run), seeds)
    finally:
        pool.shutdown(cancel_futures=True)


def result_of(run: Run, seed: int) -> dict[str, Any]:
    started = time.monotonic()
    try:
        result = run(seed)
    except Exception as error:
        result = {"passed": False, "error": f"{type(error).__name__}: {error}"}
    return {"seed": seed, "seconds": round(time.monotonic() - started, 2), **result}


def noted(name: str, source: str, results: Path, result: dict[str, Any]) -> bool:
    """Write the result to the file, sync it and print it. Return whether the run has passed."""
    line = {"source": source, **result}
    with results.open("a") as file:
        # An interrupted campaign may have left half a line: the result must be on a line of its own.
        file.write(("\n" if _ends_within_a_line(results) else "") + json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    print(f"  seed {line['seed']}: {'passed' if result['passed'] else 'FAILED'}  {json.dumps(line)}", flush=True)
    if not result["passed"]:
        print(f"  again: {sys.executable} -m tools.campaign {name} --seed {line['seed']}", flush=True)
    return bool(result["passed"])


def names() -> list[str]:
    modules = [path.stem for path in (ROOT / "tools" / "campaigns").glob("*.py")]
    return sorted(module.replace("_", "-") for module in modules if module != "__init__")


def results_file(name: str) -> Path:
    return Path(os.environ.get("SEMEL_CACHE") or ROOT / ".cache") / "campaigns" / f"{name}.jsonl"


def verdict_file(name: str) -> Path:
    return ROOT / "benchmarks" / "results" / f"campaign-{name}.json"


def read(results: Path) -> list[Line]:
    if not results.exists():
        return []
    lines = []
    for text in results.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue  # The campaign was interrupted while it wrote this line; that seed runs again.
    return lines


def _ends_within_a_line(results: Path) -> bool:
    written = results.read_bytes()
    return bool(written) and not written.endswith(b"\n")


def source_hash(further: Iterable[str] = ()) -> str:
    """Return the hash of the sources on which a verdict depends: the imported product, these tools, and ``further``."""
    digest = hashlib.sha256()
    for root in (Path(semel.__file__).parent, ROOT / "tools", *[ROOT / folder for folder in further]):
        for path in sorted(root.rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    # SIGTERM ends a campaign as Ctrl-C does: the processes that run seeds end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here")
        sys.exit(130)
