"""The proof: runs one scenario after the other, each on a broker of its own.

The law: a scenario whose fault never happened has not passed. The run without faults counts the requests of the
application, and the scenarios are made from that count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from semel.testing.prover.lives import Application
from semel.testing.prover.records import Records, Value
from semel.testing.prover.scenarios import WITHOUT_FAULTS, Scenario, scenarios_for
from semel.testing.prover.trial import (
    LIFE_SECONDS_MAX,
    NotEnded,
    ProofBroker,
    ScenarioOutcome,
    ScenarioResult,
    Trial,
)
from semel.wire.apis import APIS, ApiKey

_READ_COMMITTED: Final = "Does the consumer have isolation.level=read_committed?"
_NOT_KILLABLE: Final = (
    "the application was not killed: a lambda or an inner function cannot be sent to another process. Give prove a "
    "function of a module, or a command"
)


@dataclass
class Proof:
    application: Application
    given: Records
    expect: Records
    new_broker: Callable[[], AbstractContextManager[ProofBroker]]
    seed: int = 0
    idle_seconds: float | None = None
    """How long an application that does not end by itself may do nothing before it is ended with SIGTERM."""
    life_seconds_max: float = LIFE_SECONDS_MAX
    as_compared: Callable[[Value], Value] = lambda value: value
    can_kill_broker: bool = True
    requests: Counter[ApiKey] = field(default_factory=Counter)
    """How many requests of each API the application made in the run without faults."""

    def run(self, *, only: Sequence[str] = ()) -> Iterator[ScenarioResult]:
        """Run all scenarios that fit the application, or only those with one of the texts of ``only`` in their name.

        If the result is wrong without faults, no other scenario is run.
        """
        without_faults = self._run(WITHOUT_FAULTS)
        yield without_faults
        if without_faults.outcome is ScenarioOutcome.RIGHT:
            for scenario in scenarios_for(self.requests, seed=self.seed):
                if only and not any(text in scenario.name for text in only):
                    continue
                reason = self._why_not(scenario)
                if reason is None:
                    yield self._run(scenario)
                else:
                    yield ScenarioResult(scenario.name, ScenarioOutcome.NOT_APPLICABLE, what=reason)

    def run_scenarios(self, scenarios: Iterable[Scenario]) -> Iterator[ScenarioResult]:
        """Run these scenarios, whether they fit the application or not."""
        return map(self._run, scenarios)

    @property
    def is_transactional(self) -> bool:
        """Whether the application ended a transaction in the run without faults; ``False`` before that run."""
        return bool(self.requests[ApiKey.END_TXN])

    def _why_not(self, scenario: Scenario) -> str | None:
        if scenario.restarts and not self.can_kill_broker:
            return "this broker cannot be killed from here"
        # An application that writes nothing proves nothing: the scenarios for Produce are run all the same, so that
        # they have the outcome STRUCK_NOTHING and not NOT_APPLICABLE.
        if scenario.api in (None, ApiKey.PRODUCE) or self.requests[scenario.api]:
            return None
        return f"the application makes no {APIS[scenario.api].name} request"

    def _run(self, scenario: Scenario) -> ScenarioResult:
        if scenario.kills and not self.application.can_be_killed:
            return ScenarioResult(scenario.name, ScenarioOutcome.STRUCK_NOTHING, what=_NOT_KILLABLE)
        with self.new_broker() as broker:
            broker.fill(self.given, aborts=scenario.aborts)
            trial = Trial(
                self.application,
                broker,
                self.expect,
                as_compared=self.as_compared,
                idle_seconds=self.idle_seconds,
                life_seconds_max=self.life_seconds_max,
            )
            try:
                fault = trial.run(scenario.arm, again=scenario.again)
            except NotEnded as error:
                return ScenarioResult(scenario.name, ScenarioOutcome.NOT_ENDED, trial.kills, trial.lives, str(error))
            wrong = trial.compare()
        if scenario is WITHOUT_FAULTS:
            self.requests = Counter(trial.requests)
        struck = (
            trial.kills if scenario.kills else fault.hits if fault is not None else scenario.again + scenario.aborts
        )
        if wrong:
            wrong = f"{wrong}. {_READ_COMMITTED}" if scenario.aborts else wrong
            return ScenarioResult(scenario.name, ScenarioOutcome.WRONG, struck, trial.lives, wrong)
        if struck or fault is None:
            return ScenarioResult(scenario.name, ScenarioOutcome.RIGHT, struck, trial.lives)
        if scenario.earlier is not None and scenario.occurrence > 1:
            # The timing decides how many records go into one request: the application made fewer requests this time.
            return self._run(scenario.earlier(scenario.occurrence // 2))
        what = f"the application made no {fault.api.name} request that could be struck"
        return ScenarioResult(scenario.name, ScenarioOutcome.STRUCK_NOTHING, struck, trial.lives, what)
