"""One fault at the one moment where it hurts, on three brokers (``single_cluster_faults``)."""

from __future__ import annotations

from functools import partial

import pytest

from semel.testing.simulation import Scenario, run
from tests.simulation import single_cluster_faults as faults


@pytest.mark.parametrize(
    "scenario",
    [
        faults.a_marker_arrives_again_in_the_next_transaction,
        faults.a_request_for_admission_is_lost,
        faults.an_admission_is_answered_after_the_transaction,
        faults.power_is_cut_when_markers_are_acknowledged,
        faults.power_is_cut_when_a_marker_arrives,
        faults.a_session_expires_unseen,
        faults.its_coordinator_does_not_know_the_topic,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_a_single_fault_in_a_cluster_harms_no_transaction(scenario: Scenario[None]) -> None:
    run(scenario)


@pytest.mark.parametrize("operations", range(1, 7))
def test_a_coordinator_that_dies_while_it_ends_a_transaction_has_ended_it_everywhere_or_nowhere_scenarios_31_to_34(
    operations: int,
) -> None:
    run(partial(faults.the_coordinator_dies_while_it_ends_a_transaction, operations=operations))


def test_a_marker_of_an_earlier_coordinator_is_refused_and_so_is_the_wrong_coordinator_scenarios_35_and_36() -> None:
    run(faults.a_coordinator_of_an_earlier_term_sends_a_marker)


def test_a_marker_waits_for_a_leader_that_is_away_scenario_38() -> None:
    run(faults.a_leader_is_away_when_its_marker_is_due)
