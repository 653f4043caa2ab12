"""Bugs planted in the real coordinator and the real client, one by one: the simulated groups must show each.

A bug is caught when a seed fails, in a way that is expected of it. The seed that is named beside it showed it soonest
when it was written down, and is tried first: after a change to the code it is as good as any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from semel.errors import KafkaError
from semel.testing.simulation import Scenario, simulate
from tests.simulation import planted_group_bugs as bugs
from tests.simulation.groups_under_faults import (
    copies_in_transactions,
    reads_with_late_commits,
    reads_with_plain_commits,
)
from tests.simulation.side_by_side import SideBySide

# If the seed that is named does not show it.
SEEDS_MAX = 90
NONE = "no seed failed"

GOES_BACK = "goes back"
LATE = "after .* s of peace"
TWO = "two members read"
# What is copied without an offset, or an offset that is committed by somebody else, shows in one of these first.
NOT_ONCE = f"copied more than once|not copied|{GOES_BACK}"

BUGS: list[tuple[bugs.Plant, int, Scenario[object], str]] = [
    (bugs.commits_for_old_generations, 0, reads_with_late_commits, "law 4"),
    (bugs.commits_for_stale_epochs, 5, reads_with_late_commits, "law 4"),
    (bugs.commits_for_whom_it_has_put_out, 0, reads_with_late_commits, "law 4"),
    (bugs.commits_for_static_members_that_were_replaced, 30, copies_in_transactions, NOT_ONCE),
    (bugs.shows_offsets_that_are_undecided, 5, copies_in_transactions, NOT_ONCE),
    (bugs.drops_offsets_of_committed_transactions, 1, copies_in_transactions, LATE),
    (bugs.answers_before_the_decision_is_durable, 1, reads_with_plain_commits, f"{GOES_BACK}|{TWO}|law 1"),
    (bugs.forgets_groups_in_a_restart, 1, reads_with_plain_commits, f"law 1|{TWO}"),
    (bugs.keeps_the_generation_in_a_rebalance, 6, reads_with_plain_commits, TWO),
    (bugs.gives_away_what_is_not_given_up, 4, reads_with_plain_commits, f"law 3|law 4|{GOES_BACK}|{TWO}"),
    (bugs.takes_revocations_for_granted, 8, reads_with_plain_commits, f"law 4|{GOES_BACK}|{TWO}"),
    (bugs.puts_nobody_out, 8, reads_with_plain_commits, LATE),
    (bugs.forgets_sessions_in_a_restart, 21, reads_with_plain_commits, LATE),
    (bugs.begins_epochs_anew_when_it_converts, 4, reads_with_plain_commits, f"law 1|{TWO}"),
    (bugs.forgets_what_members_own_when_it_converts, 4, reads_with_plain_commits, f"law 3|law 4|{GOES_BACK}|{TWO}"),
    (bugs.client_assigns_a_partition_twice, 1, reads_with_plain_commits, f"law 2|{TWO}"),
    (bugs.client_leaves_a_partition_out, 1, reads_with_plain_commits, LATE),
    (
        bugs.client_reads_on_when_it_has_lost_its_partitions,
        7,
        reads_with_late_commits,
        f"law 4|{GOES_BACK}|{TWO}|{LATE}",
    ),
    (bugs.client_joins_before_it_has_given_up, 0, reads_with_late_commits, f"law 4|{GOES_BACK}|{TWO}"),
    (bugs.client_does_not_go_back_after_an_abort, 1, copies_in_transactions, "not copied"),
    (bugs.client_commits_transactions_as_nobody, 2, copies_in_transactions, NOT_ONCE),
    (bugs.client_does_not_see_that_its_work_is_lost, 4, copies_in_transactions, NOT_ONCE),
    (bugs.client_does_not_ask_where_its_group_was, 4, reads_with_plain_commits, GOES_BACK),
    (bugs.client_commits_more_than_it_has_handed_out, 0, reads_with_plain_commits, f"{LATE}|not worked on"),
]


@dataclass(frozen=True, slots=True)
class Planted:
    """Seeds with a bug, up to the one that fails: returns in what way, or that none did."""

    plant: bugs.Plant
    first: int
    scenario: Scenario[object]

    def __call__(self) -> str:
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            try:
                for seed in (self.first, *range(SEEDS_MAX)):
                    simulate(seed, self.scenario)
            except (AssertionError, KafkaError) as error:
                return str(error)
        return NONE


@pytest.mark.parametrize(
    ("job", "expected"),
    [pytest.param(Planted(plant, first, scenario), text, id=plant.__name__) for plant, first, scenario, text in BUGS],
)
def test_a_planted_bug_is_seen(side_by_side: SideBySide[str], job: Planted, expected: str) -> None:
    assert re.search(expected, side_by_side.result(job))
