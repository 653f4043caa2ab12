"""Bugs planted in the real broker and the real client, one by one: the simulation and its checker must see each.

A bug is caught when a seed fails, in a way that is expected of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from semel.errors import KafkaError
from semel.testing.simulation import Scenario, simulate
from tests.simulation import planted_transaction_bugs as bugs
from tests.simulation.side_by_side import SideBySide
from tests.simulation.transactions_under_faults import (
    transactions_v1_with_late_ends,
    transactions_v2,
    transactions_v2_with_late_ends,
)

SEEDS_MAX = 60
NONE = "no seed failed"

# About what comes late, and so seen soonest where much does.
WITH_LATE_ENDS = (bugs.ends_v2_transactions_without_a_new_epoch,)

# Most are seen by seed 0. These were seen soonest by another one, which is tried first; after a change to the code it
# is as good as any other.
FIRST = {
    bugs.answers_before_the_decision_is_durable: 3,
    bugs.aborts_after_a_restart_what_was_committed: 4,
    bugs.forgets_the_last_five_batches: 3,
    bugs.ends_v2_transactions_without_a_new_epoch: 15,
}
# Seeds whose late ends do harm with transactions V1.
HURT_V1 = (21, 36)

BUGS: list[tuple[bugs.Plant, str]] = [
    (bugs.answers_before_the_decision_is_durable, "copied once|lost-write"),
    (bugs.forgets_the_markers_that_are_owed_after_a_restart, "did not finish"),
    (bugs.aborts_after_a_restart_what_was_committed, "lost-write"),
    (bugs.leaves_out_the_marker_of_one_partition, "did not finish|unseen"),
    (bugs.writes_the_opposite_marker_to_one_partition, "aborted-read"),
    (bugs.shows_one_offset_too_many, "aborted-read"),
    (bugs.takes_the_high_watermark_for_the_last_stable_offset, "aborted-read"),
    (bugs.tells_readers_of_no_aborted_transaction, "aborted-read"),
    (bugs.appends_what_is_there_already, "duplicate"),
    (bugs.acknowledges_before_the_sync, "lost-write|inconsistent-offsets|nonmonotonic-send|OUT_OF_ORDER_SEQUENCE"),
    (bugs.writes_without_asking_the_coordinator, "did not finish"),
    (bugs.lets_no_transaction_time_out, "stays open"),
    (bugs.commits_offsets_of_aborted_transactions, "copied once"),
    (bugs.drops_offsets_of_committed_transactions, "copied once"),
    (bugs.client_shows_what_was_aborted, "aborted-read"),
    (bugs.client_commits_before_its_records_are_written, "unseen|aborted-read|lost-write"),
    (bugs.forgets_the_last_five_batches, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    (bugs.commits_what_has_timed_out, "aborted-read"),
    (bugs.ends_v2_transactions_without_a_new_epoch, "aborted-read|lost-write|unseen|did not finish"),
    (bugs.decides_before_it_is_loaded, "lost-write|aborted-read|copied once"),
    (bugs.forgets_the_journal, "inconsistent-offsets|OUT_OF_ORDER_SEQUENCE"),
    (bugs.shows_offsets_that_are_pending, "copied once"),
    (bugs.client_aborts_without_telling_anybody, "aborted-read"),
    (bugs.client_forgets_the_offsets, "copied once"),
    (bugs.client_leaves_out_a_record, "lost-write|poll-skip"),
]


@dataclass(frozen=True, slots=True)
class Planted:
    """Seeds with a bug, up to the one that fails: returns in what way, or that none did."""

    plant: bugs.Plant

    def __call__(self) -> str:
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            late = self.plant in WITH_LATE_ENDS
            seeds = (FIRST.get(self.plant, 0), *range(SEEDS_MAX))
            return failure_of(transactions_v2_with_late_ends if late else transactions_v2, seeds)


@dataclass(frozen=True, slots=True)
class LateEnds:
    scenario: Scenario[object]
    seeds: tuple[int, ...]

    def __call__(self) -> str:
        return failure_of(self.scenario, self.seeds)


def failure_of(scenario: Scenario[object], seeds: Iterable[int]) -> str:
    try:
        for seed in seeds:
            simulate(seed, scenario)
    except (AssertionError, KafkaError) as error:
        return str(error)
    return NONE


@pytest.mark.parametrize(
    ("job", "expected"), [(Planted(plant), text) for plant, text in BUGS], ids=[plant.__name__ for plant, _ in BUGS]
)
def test_a_planted_bug_is_seen(side_by_side: SideBySide[str], job: Planted, expected: str) -> None:
    assert re.search(expected, side_by_side.result(job))


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(
            LateEnds(transactions_v1_with_late_ends, (*HURT_V1, *range(SEEDS_MAX))),
            "aborted-read|lost-write|unseen",
            id="v1",
        ),
        pytest.param(LateEnds(transactions_v2_with_late_ends, HURT_V1), NONE, id="v2"),
    ],
)
def test_an_end_that_comes_late_hurts_v1_and_not_v2(
    side_by_side: SideBySide[str], job: LateEnds, expected: str
) -> None:
    """Scenarios 21 and 22, KAFKA-17754: not ours, but the older protocol's."""
    assert re.search(expected, side_by_side.result(job))
