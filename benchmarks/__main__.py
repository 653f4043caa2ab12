"""``python -m benchmarks [--quick] [--only PART] [--out FOLDER] [--spark | --before CHECKOUT]``: measure, print tables.

A complete run keeps its results and ends with Spark's rows, which have a table of their own; ``--spark`` measures only
them. ``--before`` puts this version beside another checkout of the repository instead of Apache Kafka.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import machine
from benchmarks.before import compare
from benchmarks.clients import aims_table
from benchmarks.contestants import contestants
from benchmarks.measuring import FULL, QUICK
from benchmarks.picture import svg
from benchmarks.plan import ROWS
from benchmarks.processors import TOLERATED_PERCENT
from benchmarks.running import Results, run
from benchmarks.spark.program import spark
from benchmarks.table import DISTURBED, advantage, markdown

ROOT = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Semel and Apache Kafka side by side.")
    parser.add_argument("--quick", action="store_true", help="see that it works, in a minute or two")
    parser.add_argument(
        "--only",
        default="",
        metavar="PART",
        help="only rows whose key contains this: latency, transactions, clients ...; several with commas",
    )
    parser.add_argument("--out", type=Path, help="where results go (default: benchmarks/results, or .cache/bench)")
    parser.add_argument("--spark", action="store_true", help="only the rows of pipelines on Spark")
    parser.add_argument(
        "--before",
        type=Path,
        action="append",
        metavar="CHECKOUT",
        help="beside the broker of another checkout, in turns, six rounds; again for one more",
    )
    options = parser.parse_args()
    if options.before:
        return compare(options.before, QUICK if options.quick else FULL, options.only)
    if options.spark:
        return spark(options.quick, options.only, options.out)
    complete = not options.quick and not options.only
    out: Path = options.out or (ROOT / "results" if complete else ROOT.parent / ".cache" / "bench")
    described = machine.describe()
    present, missing = contestants()
    print(machine.sentence(described))
    for remark in (machine.busy_elsewhere(), missing and f"measuring Semel alone: {missing}"):
        if remark:
            print(f"note: {remark}")
    started = time.time()
    results = Results()
    ended_by: BaseException | None = None
    try:
        with tempfile.TemporaryDirectory(prefix="semel-bench-", ignore_cleanup_errors=True) as folder:
            run(present, QUICK if options.quick else FULL, Path(folder), results, options.only)
    except (Exception, KeyboardInterrupt) as error:
        # Half an hour's figures are not thrown away for the row after them. They are not the results either.
        ended_by, complete = error, False
        out = options.out or ROOT.parent / ".cache" / "bench"
    names = [one.name for one in present]
    table = markdown(ROWS, names, results.final, results.disturbed())
    if results.disturbed():
        table += f"\n{DISTURBED} others used more than {TOLERATED_PERCENT:.0f} % of the machine in this row\n"
    print(f"\n{table}\n{_legend({one.name: one.describe for one in present})}")
    print(aims_table(results.final))
    described |= {"load_average_after": round(os.getloadavg()[0], 2), "seconds": round(time.time() - started)}
    _keep(out, described, names, table, results)
    print(f"kept in {out}: bench.json, bench.md, bench.svg")
    if ended_by is not None:
        print(f"the run ended early, with {type(ended_by).__name__}: {ended_by}", file=sys.stderr)
        return 130 if isinstance(ended_by, KeyboardInterrupt) else 1
    return spark(False, "", options.out) if complete else 0


def _legend(described: dict[str, str]) -> str:
    return "".join(f"{name}: {words}\n" for name, words in described.items())


def _keep(out: Path, described: dict[str, object], names: list[str], table: str, results: Results) -> None:
    out.mkdir(parents=True, exist_ok=True)
    day = time.strftime("%Y-%m-%d")
    content = {
        "day": day,
        "machine": described,
        "contestants": names,
        "rows": [
            {
                "key": row.key,
                "title": row.title,
                "unit": row.unit,
                "higher_is_better": row.higher_is_better,
                "aim": row.aim,
                "times_better_than_kafka": advantage(row, results.final),
                "rounds": results.figures.get(row.key, {}),
                "usage": {name: asdict(usage) for name, usage in results.usage.get(row.key, {}).items()},
                "disturbed_percent": results.disturbed_percent.get(row.key, {}),
            }
            for row in ROWS
        ],
    }
    words = f"{day}, {machine.sentence(described)}"
    (out / "bench.json").write_text(json.dumps(content, indent=1) + "\n")
    (out / "bench.md").write_text(f"{words}\n\n{table}")
    (out / "bench.svg").write_text(svg(ROWS, results.final, words))


if __name__ == "__main__":
    sys.exit(main())
