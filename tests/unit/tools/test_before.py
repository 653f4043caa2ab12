"""The table that puts this version beside an earlier one."""

from __future__ import annotations

from pathlib import Path

from benchmarks.before import compare, table
from benchmarks.measuring import QUICK, Measured
from benchmarks.running import Results


def test_the_median_round_counts_and_above_one_is_better_whatever_the_row_counts() -> None:
    results = Results()
    for before, now in ((100.0, 110.0), (90.0, 500.0), (110.0, 99.0)):
        results.add("f3a9386, flush=os", Measured({"produce-1kb-1mb": before, "latency-p50": before}))
        results.add("now, flush=os", Measured({"produce-1kb-1mb": now, "latency-p50": now}))
    throughput, latency = table(results, ["f3a9386"]).splitlines()[2:]
    assert throughput == "| produce 1 KB records, 1 MB batches | os | f3a9386 | 100 | 110 | MB/s | 1.10 x | 365% |"
    assert latency == "| produce latency at 100/s, p50 | os | f3a9386 | 100 | 110 | ms | 0.91 x | 365% |"


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    assert compare([tmp_path], QUICK, "") == 2
