"""Bugs planted in the replicas of partitions, one by one: a single fault at its worst moment must show each.

A bug is caught when a seed fails, in a way that is expected of it.
"""

from __future__ import annotations

import re

import pytest

from semel.testing.simulation import Scenario
from tests.simulation import planted_replica_bugs as bugs
from tests.simulation import single_replica_faults as single
from tests.simulation.side_by_side import SideBySide
from tests.simulation.test_confirmation import a_fetch_that_was_under_way_confirms_nothing
from tests.simulation.test_planted_cluster_bugs import Planted

WITHOUT = "acknowledged without a follower that is in sync"
OLDER = "older than one acknowledged before the question"

BUGS: list[tuple[bugs.Plant, Scenario[object], str]] = [
    (bugs.counts_the_smaller_set, single.the_outcome_of_a_shrink_is_not_known, WITHOUT),
    (bugs.counts_the_committed_set, single.the_outcome_of_an_expansion_is_not_known, WITHOUT),
    (bugs.takes_no_answer_of_the_store_for_a_refusal, single.the_outcome_of_an_expansion_is_not_known, WITHOUT),
    (bugs.says_that_it_has_what_it_has_not_synced, single.a_follower_has_not_synced, "before the follower's sync"),
    (bugs.counts_a_follower_whose_log_diverges, single.a_follower_has_what_the_next_leader_has_not, "another record"),
    (bugs.takes_records_with_too_few_in_sync, single.too_few_are_in_sync, "taken by a leader alone"),
    (
        bugs.lets_a_follower_join_before_the_beginning_of_the_term,
        single.a_follower_is_at_the_high_watermark_and_not_at_the_beginning_of_the_term,
        "law 1",
    ),
    (bugs.lets_a_broker_join_by_a_fetch_of_its_predecessor, single.a_broker_comes_back_without_its_disk, "law 1"),
    (bugs.lets_a_broker_join_that_is_gone, single.a_broker_comes_back_without_its_disk, "law 1.*not registered"),
    (
        bugs.commits_a_join_without_a_check_of_the_registration,
        single.a_broker_loses_its_disk_while_its_join_is_committed,
        "law 1",
    ),
    (bugs.keeps_its_place_without_its_disk, single.all_die_and_one_comes_back_without_its_disk, "law 2|lost"),
    (bugs.elects_a_replica_that_is_not_in_sync, single.only_one_that_is_not_in_sync_is_left, "law 2"),
    (bugs.truncates_to_its_high_watermark, single.a_leader_dies_before_it_has_told_the_high_watermark, "law 2|lost"),
    (
        bugs.enters_an_epoch_without_a_batch_of_it,
        single.a_follower_has_what_the_next_leader_has_not,
        "another record|the logs differ",
    ),
    (
        bugs.leads_with_a_log_that_is_being_truncated,
        single.a_follower_is_elected_while_it_truncates_its_log,
        "are in sync|the logs differ|lost",
    ),
    (bugs.tells_ends_before_it_knows_them, single.a_leader_dies_before_it_has_told_the_high_watermark, "the end was"),
    (bugs.tells_what_no_other_broker_has_confirmed, single.a_coordinator_is_paused_past_its_session, OLDER),
    (bugs.takes_a_fetch_that_was_under_way_for_a_reply, a_fetch_that_was_under_way_confirms_nothing, OLDER),
    (
        bugs.serves_before_it_has_replayed_to_the_end,
        single.a_coordinator_dies_with_a_commit_that_the_next_one_does_not_know_to_be_committed,
        "told",
    ),
]


@pytest.mark.parametrize(
    ("job", "expected"),
    [pytest.param(Planted(plant, scenario), text, id=plant.__name__) for plant, scenario, text in BUGS],
)
def test_a_planted_bug_is_seen(side_by_side: SideBySide[str], job: Planted, expected: str) -> None:
    assert re.search(expected, side_by_side.result(job))
