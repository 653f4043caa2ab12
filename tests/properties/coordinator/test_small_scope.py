"""Every state of a small cluster is visited: none breaks a law, unless producers speak transactions V1.

One transactional id, an old and a new instance of its producer, two partitions, up to two delayed or repeated messages,
one crash, one timeout. What is searched and what the laws are: ``small_cluster``.
"""

from __future__ import annotations

import pytest

from tests.properties.coordinator.exhaustive import search
from tests.properties.coordinator.small_cluster import Cluster, Scope

TAKEOVER = (((0, 1),), ((0,),))
"""The old instance writes to both partitions; the new one may come at any time, and writes to the first."""
TWO_TRANSACTIONS = (((0,), (0, 1)),)
"""One instance: what is left over from its first transaction may meet the second."""

SCOPES = {
    # At once: what is appended is committed. Whoever crashes in between has told nobody, and might as well not have
    # been asked; ``between append and commit`` shows just that.
    "takeover": Scope(scripts=TAKEOVER, timeouts=0, commits_at_once=True),
    "takeover and timeout": Scope(scripts=TAKEOVER, faults=1, commits_at_once=True),
    "takeover, a crash between append and commit": Scope(scripts=TAKEOVER, faults=1, timeouts=0),
    "two transactions": Scope(scripts=TWO_TRANSACTIONS, commits_at_once=True),
    "two transactions, a crash between append and commit": Scope(scripts=TWO_TRANSACTIONS, faults=1),
    "two transactions, the second uses up the epochs": Scope(
        scripts=TWO_TRANSACTIONS, first_epoch=32764, commits_at_once=True, timeouts=0
    ),
    "two transactions, the first uses up the epochs": Scope(
        scripts=TWO_TRANSACTIONS, first_epoch=32765, commits_at_once=True, timeouts=0
    ),
    "takeover at the last epoch": Scope(scripts=TAKEOVER, first_epoch=32765, faults=1, commits_at_once=True),
}


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_with_v2_no_law_is_broken_anywhere(scope: Scope) -> None:
    """Scenarios 16 to 21, 26, 27 and 31 to 35."""
    searched = search(Cluster(scope))
    assert searched.broken is None, "\n".join((searched.broken, *searched.trace))
    assert searched.states > 5_000, "the scope is too small to say anything"


@pytest.mark.parametrize("scripts", [TAKEOVER, TWO_TRANSACTIONS], ids=["takeover", "two transactions"])
def test_with_v1_no_law_is_broken_as_long_as_no_message_is_delayed(
    scripts: tuple[tuple[tuple[int, ...], ...], ...],
) -> None:
    """Crashes and timeouts are not what V1 fails at."""
    searched = search(Cluster(Scope(transaction_version=0, scripts=scripts, faults=0)))
    assert searched.broken is None, "\n".join((searched.broken, *searched.trace))


def test_with_v1_one_delayed_end_tears_a_transaction_apart() -> None:
    """Scenario 22, KAFKA-17754: found by the search, so that nobody has to believe it."""
    scope = Scope(transaction_version=0, scripts=TWO_TRANSACTIONS, faults=1, crashes=0, timeouts=0)
    searched = search(Cluster(scope))
    assert searched.broken == "Tag(producer=0, number=1) is committed here and aborted there"
    assert [step for step in searched.trace if step.startswith("late: End")]


def test_with_v2_the_same_delay_does_nothing() -> None:
    """Scenario 21."""
    scope = Scope(scripts=TWO_TRANSACTIONS, faults=1, crashes=0, timeouts=0)
    assert search(Cluster(scope)).broken is None
