"""The runner: one seed is one run, wherever it runs, and a failing one says how to see it again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from semel.testing.simulation import Simulation, main, run, seeds, simulate
from tests.unit.testing.register_scenario import forgetful_register, register

SCENARIOS = Path(__file__).parent / "register_scenario.py"


def test_nothing_acknowledged_is_lost_in_any_of_many_seeds() -> None:
    for seed in seeds(60):
        simulate(seed, register)


def test_a_server_that_answers_before_the_sync_is_caught() -> None:
    """The mutant of the test above: a simulation that cannot fail proves nothing."""

    def fails(seed: int) -> bool:
        try:
            simulate(seed, forgetful_register)
        except AssertionError as failure:
            return "acknowledged and forgotten" in str(failure)
        return False

    assert sum(map(fails, range(30))) >= 3


def test_same_seed_same_trace_and_another_seed_another_trace() -> None:
    assert simulate(5, register).digest() == simulate(5, register).digest()
    assert len({simulate(seed, register).digest() for seed in range(5)}) == 5


def test_same_seed_same_trace_in_another_process_with_another_hash_seed() -> None:
    outputs = []
    for hash_seed in ("1", "2"):
        command = [
            sys.executable,
            "-m",
            "semel.testing.simulation",
            f"{SCENARIOS}:register",
            "--seed",
            "5",
            "--count",
            "3",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert outputs[0] == outputs[1]
    assert f"seed 5: passed, {len(simulate(5, register))} events, digest {simulate(5, register).digest()}" in outputs[0]


async def fails_at_seven(simulation: Simulation) -> None:
    simulation.trace.record("the last thing that happened")
    await asyncio.sleep(1)
    assert simulation.seed != 7


def test_a_failing_seed_says_which_command_replays_it_and_what_happened_last() -> None:
    simulate(6, fails_at_seven)
    with pytest.raises(AssertionError) as failure:
        simulate(7, fails_at_seven)
    notes = "\n".join(failure.value.__notes__)
    assert "the last thing that happened" in notes
    reference = f"{os.path.relpath(__file__)}:fails_at_seven"
    assert notes.endswith(f"replay: python -m semel.testing.simulation {reference} --seed 7")
    with pytest.raises(AssertionError):
        main([reference, "--seed", "7"])


def test_the_command_prints_every_event_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{os.path.relpath(__file__)}:fails_at_seven", "--trace", "--count", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "    0.000000  the last thing that happened"
    assert [line.split(",")[0] for line in lines if line.startswith("seed")] == ["seed 0: passed", "seed 1: passed"]


@pytest.mark.parametrize("reference", ["no/such/file.py:scenario", f"{SCENARIOS}:no_such_scenario", "nonsense"])
def test_a_scenario_that_does_not_exist_is_refused_by_name(reference: str) -> None:
    with pytest.raises(SystemExit, match="does not name a scenario"):
        main([reference])


def test_what_one_part_draws_does_not_change_what_another_one_gets() -> None:
    async def scenario(simulation: Simulation, draws: int = 0) -> list[float]:
        for _ in range(draws):
            simulation.random("one").random()
        return [simulation.random("two").random(), simulation.random("one").random()]

    first = run(scenario, seed=1)
    assert first == run(lambda simulation: scenario(simulation, 5), seed=1)
    assert first != run(scenario, seed=2)
    assert first[0] != first[1]


def test_the_seeds_of_a_test_can_be_set_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEED", raising=False)
    monkeypatch.delenv("SEEDS", raising=False)
    assert seeds(3) == [0, 1, 2]
    monkeypatch.setenv("SEEDS", "5")
    assert seeds(3) == [0, 1, 2, 3, 4]
    monkeypatch.setenv("SEED", "1234")
    assert seeds(3) == [1234]
