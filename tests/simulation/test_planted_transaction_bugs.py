"""Bugs planted in the real broker and the real client, one by one: the simulation and its checker must see each.

A bug is caught when one of the first seeds fails, in a way that is expected of it.
"""

from __future__ import annotations

import pytest

from semel.errors import KafkaError
from semel.testing.simulation import Scenario, simulate
from tests.simulation import planted_transaction_bugs as bugs
from tests.simulation.test_transactions import transactions_v1_with_late_ends, transactions_v2

SEEDS_MAX = 12

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
    (bugs.acknowledges_before_the_sync, "lost-write|inconsistent-offsets|nonmonotonic-send"),
    (bugs.writes_without_asking_the_coordinator, "did not finish"),
    (bugs.lets_no_transaction_time_out, "stays open"),
    (bugs.commits_offsets_of_aborted_transactions, "copied once"),
    (bugs.drops_offsets_of_committed_transactions, "copied once"),
    (bugs.client_shows_what_was_aborted, "aborted-read"),
    (bugs.client_commits_before_its_records_are_written, "unseen|aborted-read|lost-write"),
    (bugs.forgets_the_last_five_batches, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    (bugs.commits_what_has_timed_out, "aborted-read"),
    (bugs.ends_v2_transactions_without_a_new_epoch, "aborted-read|lost-write|unseen"),
    (bugs.decides_before_it_is_loaded, "lost-write|aborted-read|copied once"),
    (bugs.forgets_the_journal, "inconsistent-offsets"),
    (bugs.shows_offsets_that_are_pending, "copied once"),
    (bugs.client_aborts_without_telling_anybody, "aborted-read"),
    (bugs.client_forgets_the_offsets, "copied once"),
    (bugs.client_leaves_out_a_record, "lost-write|poll-skip"),
]


@pytest.mark.parametrize(("plant", "expected"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_planted_bug_is_seen(plant: bugs.Plant, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError), match=expected):
        run_first_seeds(transactions_v2)


def test_an_end_that_comes_late_hurts_transactions_v1() -> None:
    """Scenario 22, KAFKA-17754: not ours, but the protocol's. Transactions V2 bear it in every run of theirs."""
    with pytest.raises(AssertionError, match=r"aborted-read|lost-write|unseen"):
        run_first_seeds(transactions_v1_with_late_ends)


def run_first_seeds(scenario: Scenario[None]) -> None:
    for seed in range(SEEDS_MAX):
        simulate(seed, scenario)
