"""A campaign can be interrupted anywhere, and its verdict says which source each seed was tested on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.campaign import names, noted, read, result_of, results_of, run_all
from tools.verdicts import read_verdict, seeds_of, text_of, totals, what_passed


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


@pytest.fixture
def verdict(tmp_path: Path) -> Path:
    return tmp_path / "verdict.json"


def test_what_has_passed_is_not_run_again(results: Path, verdict: Path) -> None:
    campaign = Recorded()
    assert run_all(campaign, "x", 3, "source", results, verdict)
    assert run_all(campaign, "x", 5, "source", results, verdict)
    assert campaign.seeds == [0, 1, 2, 3, 4]


def test_a_changed_source_starts_again(results: Path, verdict: Path) -> None:
    campaign = Recorded()
    run_all(campaign, "x", 2, "source", results, verdict)
    run_all(campaign, "x", 2, "other source", results, verdict)
    assert campaign.seeds == [0, 1, 0, 1]


def test_a_seed_whose_line_was_torn_runs_again(results: Path, verdict: Path) -> None:
    campaign = Recorded()
    run_all(campaign, "x", 3, "source", results, verdict)
    results.write_text(results.read_text()[:-20])
    run_all(campaign, "x", 3, "source", results, verdict)
    assert campaign.seeds == [0, 1, 2, 2]
    run_all(campaign, "x", 3, "source", results, verdict)
    assert campaign.seeds == [0, 1, 2, 2], "its second line was written whole"


def test_what_failed_is_told_and_runs_again(results: Path, verdict: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Recorded(failing=1)
    assert not run_all(campaign, "x", 3, "source", results, verdict)
    assert not run_all(campaign, "x", 3, "source", results, verdict)
    assert campaign.seeds == [0, 1, 2, 1]
    assert [line["passed"] for line in read(results)] == [True, False, True, False]
    assert "tools.campaign x --seed 1" in capsys.readouterr().out


def test_a_finished_campaign_writes_its_verdict_and_an_unfinished_one_none(results: Path, verdict: Path) -> None:
    campaign = Recorded(failing=4)
    run_all(campaign, "x", 9, "source", results, verdict)
    assert not verdict.exists()
    run_all(campaign, "x", 10, "source", results, verdict)
    found = read_verdict(verdict)
    assert (found["runs"], found["passed"], found["failed_seeds"]) == (10, 9, [4])
    assert found["sources"] == {"source": "0-3, 5-9"}
    assert found["totals"] == {"records": sum(range(10)) - 4}


def test_a_campaign_goes_on_from_its_verdict_on_another_machine_and_source(results: Path, verdict: Path) -> None:
    first = Recorded(failing=1)
    assert not run_all(first, "x", 4, "source", results, verdict, continued=True)
    results.unlink()
    second = Recorded()
    assert run_all(second, "x", 10, "other source", results, verdict, continued=True)
    assert second.seeds == [1, 4, 5, 6, 7, 8, 9], "what failed runs again, what passed does not"
    found = read_verdict(verdict)
    assert (found["runs"], found["passed"], found["failed_seeds"]) == (10, 10, [])
    assert found["sources"] == {"source": "0, 2-3", "other source": "1, 4-9"}
    assert found["totals"] == {"records": sum(range(10))}
    assert sorted(result["seed"] for result in found["results"]) == list(range(10))


def test_what_failed_stays_in_the_verdict_until_it_has_passed(results: Path, verdict: Path) -> None:
    run_all(Recorded(failing=3), "x", 5, "source", results, verdict, continued=True)
    results.unlink()
    run_all(Recorded(), "x", 2, "source", results, verdict, continued=True)
    found = read_verdict(verdict)
    assert (found["failed_seeds"], what_passed(found)) == ([3], {0, 1, 2, 4})


def test_what_has_passed_and_failed_since_runs_again(results: Path, verdict: Path) -> None:
    """A seed may be run alone, on a source that is newer than the verdict."""
    run_all(Recorded(), "x", 3, "source", results, verdict, continued=True)
    noted("x", "newer source", results, result_of(Recorded(failing=1).run, 1))
    again = Recorded(failing=1)
    assert not run_all(again, "x", 3, "newer source", results, verdict, continued=True)
    assert again.seeds == [1]
    found = read_verdict(verdict)
    assert (found["runs"], found["passed"], found["failed_seeds"]) == (3, 2, [1])
    assert what_passed(found) == {0, 2}
    assert run_all(Recorded(), "x", 3, "mended source", results, verdict, continued=True)
    found = read_verdict(verdict)
    assert (found["passed"], found["failed_seeds"]) == (3, [])
    assert found["sources"] == {"source": "0, 2", "mended source": "1"}
    assert found["totals"] == {"records": sum(range(3))}, "each seed counts once"


class Interrupted(Recorded):
    def run(self, seed: int) -> dict[str, Any]:
        if seed == 2:
            raise KeyboardInterrupt
        return super().run(seed)


def test_an_interrupted_campaign_that_is_to_go_on_writes_what_passed(results: Path, verdict: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_all(Interrupted(), "x", 5, "source", results, verdict, continued=True)
    assert what_passed(read_verdict(verdict)) == {0, 1}


@given(st.sets(st.integers(min_value=0, max_value=40)))
def test_seeds_are_written_as_ranges(seeds: set[int]) -> None:
    assert seeds_of(text_of(seeds)) == sorted(seeds)


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
