"""Spark's rows: measure, print the table, keep the results. Part of ``python -m benchmarks``."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.spark.connector import connector
from benchmarks.spark.contest import contest, markdown
from benchmarks.spark.measuring import FULL, QUICK
from tools.kafka_jars import Unavailable

ROOT = Path(__file__).resolve().parent.parent


def spark(quick: bool, only: str, out: Path | None) -> int:
    """Without Spark's own connector there is nothing to compare with: that is said, and is no failure."""
    try:
        found = connector()
    except Unavailable as missing:
        print(f"note: Spark's rows are left out: {missing}")
        return 0
    described = machine.describe()
    print(machine.sentence(described))
    if remark := machine.busy_elsewhere():
        print(f"note: {remark}")
    with tempfile.TemporaryDirectory(prefix="semel-bench-spark-", ignore_cleanup_errors=True) as folder:
        results = contest(found, QUICK if quick else FULL, Path(folder), only)
    described |= {"spark": results.spark_version, "load_average_after": round(os.getloadavg()[0], 2)}
    day, table = time.strftime("%Y-%m-%d"), markdown(results)
    print(f"\n{table}")
    out = out or (ROOT.parent / ".cache" / "bench" if quick or only else ROOT / "results")
    out.mkdir(parents=True, exist_ok=True)
    content = {"day": day, "machine": described, "rounds": results.rounds}
    (out / "spark.json").write_text(json.dumps(content, indent=1) + "\n")
    words = f"{day}, {machine.sentence(described)}, Spark {results.spark_version}"
    (out / "spark.md").write_text(f"{words}\n\n{table}")
    print(f"kept in {out}: spark.json, spark.md")
    return 0
