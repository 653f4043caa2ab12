"""A campaign can be interrupted anywhere, and is true of one source only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tools.campaign import names, read, results_of, run_all, totals


class Recorded:
    COUNT = 10

    def __init__(self, *, failing: int | None = None) -> None:
        self.seeds: list[int] = []
        self._failing = failing

    def run(self, seed: int) -> dict[str, Any]:
        self.seeds.append(seed)
        if seed == self._failing:
            raise ValueError("it broke")
        return {"passed": True, "records": seed}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def test_what_has_passed_is_not_run_again(results: Path) -> None:
    campaign = Recorded()
    assert run_all(campaign, "x", 3, "source", results)
    assert run_all(campaign, "x", 5, "source", results)
    assert campaign.seeds == [0, 1, 2, 3, 4]


def test_a_changed_source_starts_again(results: Path) -> None:
    campaign = Recorded()
    run_all(campaign, "x", 2, "source", results)
    run_all(campaign, "x", 2, "other source", results)
    assert campaign.seeds == [0, 1, 0, 1]


def test_a_seed_whose_line_was_torn_runs_again(results: Path) -> None:
    campaign = Recorded()
    run_all(campaign, "x", 3, "source", results)
    results.write_text(results.read_text()[:-20])
    run_all(campaign, "x", 3, "source", results)
    assert campaign.seeds == [0, 1, 2, 2]
    run_all(campaign, "x", 3, "source", results)
    assert campaign.seeds == [0, 1, 2, 2], "its second line was written whole"


def test_what_failed_is_told_and_runs_again(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Recorded(failing=1)
    assert not run_all(campaign, "x", 3, "source", results)
    assert not run_all(campaign, "x", 3, "source", results)
    assert campaign.seeds == [0, 1, 2, 1]
    assert [line["passed"] for line in read(results)] == [True, False, True, False]
    assert "tools.campaign x --seed 1" in capsys.readouterr().out


def fails_if_odd(seed: int) -> dict[str, Any]:
    return {"passed": seed % 2 == 0, "process": os.getpid()}


def test_seeds_that_run_side_by_side_are_told_in_their_order_and_fail_alone() -> None:
    results = list(results_of(fails_if_odd, [4, 5, 6], at_once=2))
    assert [(result["seed"], result["passed"]) for result in results] == [(4, True), (5, False), (6, True)]
    assert os.getpid() not in {result["process"] for result in results}


def test_counts_are_added_up_also_one_level_down_and_of_times_and_memory_the_most_counts() -> None:
    lines = [
        {
            "seed": 0,
            "passed": True,
            "seconds": 1.5,
            "records": 3,
            "oldest_ms": 20,
            "peak_mb": 40,
            "faults": {"answer lost": 2},
        },
        {
            "seed": 7,
            "passed": True,
            "seconds": 2.5,
            "records": 4,
            "oldest_ms": 10,
            "peak_mb": 50,
            "faults": {"answer lost": 1, "killed": 1},
        },
    ]
    assert totals(lines) == {"records": 7, "oldest_ms": 20, "peak_mb": 50, "answer lost": 3, "killed": 1}
    assert json.dumps(totals(lines))


def test_the_campaigns_that_the_makefile_names_are_there() -> None:
    assert set(names()) >= {"copy", "hostile", "kill", "simulation", "transactions"}
