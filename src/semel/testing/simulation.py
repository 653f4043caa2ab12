"""Run a scenario on simulated machines, once per seed, and print the command that runs a failing seed again.

A scenario is a coroutine function that takes a ``Simulation``: it starts hosts, injects faults, and asserts. All
randomness comes from the seed, so that one seed is one run:

    async def survives_power_cuts(simulation: Simulation) -> None:
        broker = simulation.host("broker")
        ...

    trace = simulate(1234, survives_power_cuts)

An error has a note with the last events and the command that replays the run:

    python -m semel.testing.simulation tests/simulation/test_power_cuts.py:survives_power_cuts --seed 1234
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

from semel.testing.virtual.host import VirtualHost
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.network import VirtualNetwork
from semel.testing.virtual.trace import Trace

T = TypeVar("T")

_TAIL_EVENTS: Final = 30


class Simulation:
    """The loop, network, hosts and trace of one simulated run."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = Trace(loop.time)
        self.network = VirtualNetwork(loop, self.random("network"), trace=self.trace)
        self._hosts: dict[str, VirtualHost] = {}

    def random(self, name: str) -> Random:
        """Return a random generator for one part of the simulation. What one part draws does not affect the others."""
        return Random(f"{self.seed} {name}")

    def host(self, name: str) -> VirtualHost:
        if name not in self._hosts:
            self._hosts[name] = VirtualHost(name, self.loop, self.network, self.random(f"host {name}"), self.trace)
        return self._hosts[name]


Scenario: TypeAlias = Callable[[Simulation], Coroutine[Any, Any, T]]


def run(scenario: Scenario[T], *, seed: int = 0, duration_s_max: float = 86_400.0, steps_max: int = 5_000_000) -> T:
    """Run a scenario once and return its result. An error has a note with the command that replays the run."""
    return _run(scenario, seed, duration_s_max, steps_max)[0]


def simulate(
    seed: int, scenario: Scenario[Any], *, duration_s_max: float = 86_400.0, steps_max: int = 5_000_000
) -> Trace:
    """Run a scenario once and return its trace. An error has a note with the command that replays the run."""
    return _run(scenario, seed, duration_s_max, steps_max)[1]


def seeds(count: int) -> list[int]:
    """Return the seeds that a test runs: the first ``count``, or as many as the environment variable SEEDS says, or
    only the one in SEED."""
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]
    return list(range(int(os.environ.get("SEEDS", count))))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m semel.testing.simulation", description="Run a simulation scenario."
    )
    parser.add_argument("scenario", help="FILE:FUNCTION, as printed by a failing run")
    parser.add_argument("--seed", type=int, default=0, help="the first seed to run")
    parser.add_argument("--count", type=int, default=1, help="how many seeds to run")
    parser.add_argument("--trace", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    scenario = _load(options.scenario)
    for seed in range(options.seed, options.seed + options.count):
        trace = simulate(seed, scenario)
        if options.trace:
            print(trace)
        print(f"seed {seed}: passed, {len(trace)} events, digest {trace.digest()}")
    return 0


def _run(scenario: Scenario[T], seed: int, duration_s_max: float, steps_max: int) -> tuple[T, Trace]:
    loop = VirtualLoop(duration_s_max=duration_s_max, steps_max=steps_max)
    simulation = Simulation(seed, loop)
    try:
        return loop.run(scenario(simulation)), simulation.trace
    except BaseException as error:
        error.add_note(
            f"the last events of seed {seed}:\n{simulation.trace.tail(_TAIL_EVENTS)}\n"
            f"replay: python -m semel.testing.simulation {_reference(scenario)} --seed {seed}"
        )
        raise


def _reference(scenario: Scenario[Any]) -> str:
    code = getattr(scenario, "__code__", None)
    if code is None:
        return repr(scenario)
    return f"{os.path.relpath(code.co_filename)}:{scenario.__qualname__}"


def _load(reference: str) -> Scenario[Any]:
    path, _, name = reference.rpartition(":")
    specification = importlib.util.spec_from_file_location(os.path.basename(path).removesuffix(".py"), path)
    if specification is None or specification.loader is None or not os.path.exists(path):
        raise SystemExit(f"{reference!r} does not name a scenario: there is no Python file {path!r}")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    specification.loader.exec_module(module)
    scenario = getattr(module, name, None)
    if scenario is None:
        raise SystemExit(f"{reference!r} does not name a scenario: {path} defines no {name}")
    loaded: Scenario[Any] = scenario
    return loaded


if __name__ == "__main__":
    # Imported under its real name, not ``__main__``: the scenario must use the same classes as this module.
    from semel.testing import simulation

    sys.exit(simulation.main())
