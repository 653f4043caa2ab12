"""What the benchmarks of Spark say of their figures, and what they do where there is nothing to compare with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.spark.contest import SparkResults, markdown
from benchmarks.spark.driver import rows_of
from benchmarks.spark.measuring import WORKLOADS
from benchmarks.spark.program import spark
from benchmarks.spark.queries import SEMEL, SPARK


def lines(rounds: dict[str, dict[str, list[float]]]) -> list[str]:
    return markdown(SparkResults("4.2.0", rounds)).splitlines()[2:]


def test_the_best_round_counts_in_either_direction() -> None:
    (line,) = lines({"copy-100": {SPARK: [90.0, 100.0, 80.0], SEMEL: [150.0, 120.0]}})
    assert [cell.strip() for cell in line.split("|")[2:-1]] == ["100", "150", "rows/s", "1.50 x", "1 x"]
    (line,) = lines({"batch": {SPARK: [250.0, 200.0], SEMEL: [400.0, 240.0]}})
    assert [cell.strip() for cell in line.split("|")[2:-1]] == ["200", "240", "ms", "0.83 x", "at most 60 ms more"]


def test_a_missed_aim_is_said_so() -> None:
    (line,) = lines({"fused-100": {SPARK: [100.0], SEMEL: [299.0]}})
    assert "2.99 x (missed)" in line
    (line,) = lines({"batch": {SPARK: [200.0], SEMEL: [261.0]}})
    assert "(missed)" in line


def test_every_row_has_a_key_of_its_own() -> None:
    keys = [row.key for workload in WORKLOADS for row in workload.rows]
    assert len(keys) == len(set(keys))


def test_the_rows_of_a_batch_are_told_by_its_offsets() -> None:
    assert rows_of({"startOffset": "null", "endOffset": '{"in": {"0": 5, "1": 7}}'}) == 12
    assert rows_of({"startOffset": '{"in": {"0": 5}}', "endOffset": '{"in": {"0": 5, "1": 7}}'}) == 7
    assert rows_of({"startOffset": '{"in": {"0": 5}}', "endOffset": '{"in": {"0": 5}}'}) == 0


def test_without_the_connector_the_rows_are_left_out_and_how_to_get_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path))
    assert spark(quick=True, only="", out=tmp_path) == 0
    printed = capsys.readouterr().out
    assert "left out" in printed
    assert "make spark-jars" in printed or "no java" in printed
