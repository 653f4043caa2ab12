"""Tests whether an application is exactly-once: it is killed at each of its commit points, and its output is compared
with the expected output.

    def run(servers: str) -> None:
        '''One life (process) of the application: it returns when all input is processed, or raises.'''

    exactly_once.prove(run, given={"orders": [b"1", b"2"]}, expect={"totals": [b"3"]})

Each scenario gets a broker of its own. The application is started, and started again each time it dies, until one life
ends by itself. Then every record that a read_committed consumer sees is counted: one that is missing or is there twice
raises an ``AssertionError`` that names the scenario and the record. docs/design/prover.md says what is killed where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from semel.testing.prover.lives import Function, application_of
from semel.testing.prover.own_broker import own_broker
from semel.testing.prover.proof import Proof
from semel.testing.prover.records import Record
from semel.testing.prover.scenarios import (
    ABORTED_INPUT,
    STARTED_AGAIN,
    WITHOUT_FAULTS,
    Phase,
    Scenario,
    killed,
    stopped,
)
from semel.testing.prover.scenarios import FAULTS as SCENARIOS
from semel.testing.prover.trial import LIFE_SECONDS_MAX, LIVES_MAX, ScenarioOutcome, ScenarioResult, Trial

__all__ = [
    "ABORTED_INPUT",
    "LIVES_MAX",
    "SCENARIOS",
    "STARTED_AGAIN",
    "WITHOUT_FAULTS",
    "Function",
    "Phase",
    "Scenario",
    "ScenarioOutcome",
    "ScenarioResult",
    "Trial",
    "killed",
    "prove",
    "stopped",
]


def prove(
    application: Function | Sequence[str],
    *,
    given: Mapping[str, Iterable[Record]],
    expect: Mapping[str, Iterable[Record]],
    partitions: int = 2,
    scenarios: Iterable[Scenario] | None = None,
    seed: int = 0,
    idle_seconds: float | None = None,
    life_seconds_max: float = LIFE_SECONDS_MAX,
    **settings: object,
) -> list[ScenarioResult]:
    """Run the application in each scenario. Raises ``AssertionError`` at the first scenario whose result is wrong.

    It is raised as well if the application does not end, or never makes the request at which the fault should happen.

    ``application`` is a function of a module, or a command such as ``[sys.executable, "app.py"]``, which finds the
    broker in ``SEMEL_BOOTSTRAP_SERVERS``. ``given`` are the values in the input topics, spread over their partitions;
    ``expect`` are the values that readers of the output topics must see, in any order. A pair is a key and a value.
    With ``scenarios=None`` those that fit the application are run; the others are in the result, with the reason.
    ``seed`` selects the random kills. ``settings`` are the broker's.

    A command that runs forever is ended with SIGTERM when it has done nothing for ``idle_seconds``.
    """
    proof = Proof(
        application_of(application),
        {topic: list(records) for topic, records in given.items()},
        {topic: list(records) for topic, records in expect.items()},
        lambda: own_broker(partitions, settings),
        seed=seed,
        idle_seconds=idle_seconds,
        life_seconds_max=life_seconds_max,
    )
    results = []
    for result in proof.run() if scenarios is None else proof.run_scenarios(scenarios):
        results.append(result)
        if result.outcome not in (ScenarioOutcome.RIGHT, ScenarioOutcome.NOT_APPLICABLE):
            remark = "" if scenarios is not None or proof.is_transactional else ". The application is not transactional"
            raise AssertionError(f"{result.scenario}: {result.what}{remark}")
    return results
