"""Bugs planted in the brokers of a cluster, one by one: the simulations of three brokers must show each.

A bug is caught when a seed fails, in a way that is expected of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from semel.errors import KafkaError
from semel.testing.simulation import Scenario, simulate
from tests.simulation import planted_cluster_bugs as bugs
from tests.simulation import single_cluster_faults as single
from tests.simulation.cluster_under_faults import cluster_transactions_v2
from tests.simulation.side_by_side import SideBySide
from tests.simulation.test_transaction_gates import commits_offsets_while_the_term_changes

SEEDS_MAX = 20
NONE = "no seed failed"
# Seen soonest by another seed than 0, which is tried first; after a change to the code it is as good as any other.
FIRST = {
    bugs.sets_an_ephemeral_value_of_another_session: 6,
    bugs.claims_producer_ids_that_another_broker_has: 1,
    bugs.acknowledges_markers_before_they_are_committed: 1,
    bugs.ends_what_coordinators_elsewhere_have_open: 2,
}

OPEN = "a transaction is open"
EARLIER = "a marker of an earlier term was taken"
LATE = "not acknowledged within delivery.timeout.ms"
UNKNOWN_TOPIC = single.its_coordinator_does_not_know_the_topic
SECOND_MARKER = single.a_marker_arrives_again_in_the_next_transaction

BUGS: list[tuple[bugs.Plant, Scenario[object], str]] = [
    (bugs.drops_the_marker_of_a_partition_that_its_image_lacks, UNKNOWN_TOPIC, OPEN),
    (bugs.takes_a_stale_read_for_a_fresh_one, UNKNOWN_TOPIC, OPEN),
    (bugs.refuses_a_partition_that_its_image_lacks, UNKNOWN_TOPIC, "has heard of the topic"),
    (bugs.sets_an_ephemeral_value_of_another_session, cluster_transactions_v2, "law 2"),
    (
        bugs.claims_producer_ids_that_another_broker_has,
        cluster_transactions_v2,
        "did not finish|lost-write|duplicate|OUT_OF_ORDER_SEQUENCE|INVALID_PRODUCER_EPOCH",
    ),
    (bugs.joins_without_new_leader_epochs, single.a_session_expires_unseen, "law 1"),
    (bugs.takes_markers_of_an_earlier_coordinator, single.a_coordinator_of_an_earlier_term_sends_a_marker, EARLIER),
    (bugs.sends_markers_under_the_first_epoch, single.a_coordinator_of_an_earlier_term_sends_a_marker, EARLIER),
    (bugs.leads_on_after_its_session_was_lost, single.a_session_expires_unseen, LATE),
    (bugs.keeps_what_the_gate_was_told_over_a_term, commits_offsets_while_the_term_changes, "not asked again"),
    (bugs.serves_older_connections, SECOND_MARKER, "b'second'"),
    (bugs.takes_no_answer_for_an_acknowledgement, SECOND_MARKER, "b'second'"),
    (bugs.gives_up_markers_after_a_refusal, SECOND_MARKER, LATE),
    (bugs.takes_no_answer_for_an_admission, single.a_request_for_admission_is_lost, OPEN),
    (bugs.counts_an_admission_although_a_marker_came, single.an_admission_is_answered_after_the_transaction, OPEN),
    (bugs.acknowledges_markers_before_they_are_committed, single.power_is_cut_when_markers_are_acknowledged, "lost"),
    (bugs.waits_for_an_answer_of_a_process_that_is_gone, single.power_is_cut_when_a_marker_arrives, OPEN),
    (bugs.ends_what_coordinators_elsewhere_have_open, cluster_transactions_v2, "lost-write|after ok"),
]


@dataclass(frozen=True, slots=True)
class Planted:
    """Seeds with a bug, up to the one that fails: returns in what way, or that none did."""

    plant: bugs.Plant
    scenario: Scenario[object]

    def __call__(self) -> str:
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            try:
                for seed in (FIRST.get(self.plant, 0), *range(SEEDS_MAX)):
                    simulate(seed, self.scenario)
            except (AssertionError, KafkaError) as error:
                return str(error)
        return NONE


@pytest.mark.parametrize(
    ("job", "expected"),
    [pytest.param(Planted(plant, scenario), text, id=plant.__name__) for plant, scenario, text in BUGS],
)
def test_a_planted_bug_is_seen(side_by_side: SideBySide[str], job: Planted, expected: str) -> None:
    assert re.search(expected, side_by_side.result(job))
