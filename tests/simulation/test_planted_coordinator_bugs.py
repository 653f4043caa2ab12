"""Bugs in the runtime of the coordinators, planted one by one: the simulations over the raw protocol must see each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from semel.broker.coordinators.shard_runtime import ShardRuntime
from semel.broker.partitions.transaction_gate import TransactionGate
from semel.broker.produce.produce_batch import ProduceBatch
from semel.coordinator.decision import Decision
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.transaction.shard import TransactionShard
from semel.testing.simulation import simulate
from tests.simulation.test_commit_crashes import crash_everywhere
from tests.simulation.test_transactions_wire import transactions_under_faults

Plant = Callable[[pytest.MonkeyPatch], None]


def markers_before_the_decision_is_safe(patch: pytest.MonkeyPatch) -> None:
    """Scenario 31: the power is cut, and a partition has the marker of a decision that nobody remembers."""
    delay = ShardRuntime._delay

    def early(self: Any, decision: Decision[Any, Any, Any], waiter: Any, last_offset: int) -> bool:
        for effect in decision.effects:
            self._carry_out(self, effect)
        return delay(self, decision._replace(effects=()), waiter, last_offset)

    patch.setattr(ShardRuntime, "_delay", early)


def answers_before_the_decision_is_safe(patch: pytest.MonkeyPatch) -> None:
    """redpanda #6018: acknowledged from memory, and gone after a failover."""
    delay = ShardRuntime._delay

    def early(self: Any, decision: Decision[Any, Any, Any], waiter: Any, last_offset: int) -> bool:
        if waiter is not None:
            waiter.respond(decision.response)
        delay(self, decision, None, last_offset)
        return False

    patch.setattr(ShardRuntime, "_delay", early)


def markers_that_are_owed_are_forgotten_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Scenarios 32 and 33."""
    patch.setattr(TransactionShard, "loaded", lambda self, moment: Decision(None))


def markers_do_not_decide_about_offsets(patch: pytest.MonkeyPatch) -> None:
    """Scenario 51."""
    patch.setattr(GroupShard, "replay_marker", lambda *_, **__: None)


def writes_open_transactions_that_nobody_ends(patch: pytest.MonkeyPatch) -> None:
    """Scenario 42: the coordinator is not asked."""
    patch.setattr(TransactionGate, "is_open", lambda *_: True)


def what_waits_is_overwritten(patch: pytest.MonkeyPatch) -> None:
    """A request that waits for the coordinator still points into the buffer that the next one is read into."""
    patch.setattr(ProduceBatch, "keep", lambda self: None)


# The first shows soonest what only these simulations see.
SEEDS = (4, 0, 1, 2)

PLANTS: tuple[Plant, ...] = (
    markers_before_the_decision_is_safe,
    answers_before_the_decision_is_safe,
    markers_that_are_owed_are_forgotten_by_a_restart,
    markers_do_not_decide_about_offsets,
    writes_open_transactions_that_nobody_ends,
    what_waits_is_overwritten,
)


def run_simulations() -> None:
    for is_v2 in (False, True):
        for client_returns in (True, False):
            crash_everywhere(is_v2=is_v2, commit=True, power_cut=True, client_returns=client_returns)
    for seed in SEEDS:
        simulate(seed, transactions_under_faults, duration_s_max=300)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_simulations_see(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(Exception) as seen:  # noqa: PT011 (whichever check is the first to see it)
        run_simulations()
    assert not isinstance(seen.value, (AttributeError, TypeError, NameError)), "the plant itself is broken"
