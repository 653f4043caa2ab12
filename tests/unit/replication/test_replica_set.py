"""The leader's replica set: what counts for the high watermark, who joins, who leaves, what is confirmed."""

from __future__ import annotations

import pytest

from semel.replication.replica_set import ReplicaSet

LAG_MAX_MS = 10_000
REGISTERED = {1: 1, 2: 1, 3: 1}


def led_by_one(
    *isr: int, start: int = 0, end: int = 0, high_watermark: int = 0, min_insync_replicas: int = 2
) -> ReplicaSet:
    """Broker 1 leads; its log, all of it synced, ends at ``end``."""
    return ReplicaSet(
        node_id=1,
        replicas=(1, 2, 3),
        isr=isr,
        epoch_start_offset=start,
        log_end_offset=end,
        durable_offset=end,
        high_watermark=high_watermark,
        min_insync_replicas=min_insync_replicas,
    )


def write(replicas: ReplicaSet, end: int) -> bool:
    replicas.appended(end)
    return replicas.leader_synced(end)


def fetch(replicas: ReplicaSet, replica: int, offset: int, *, broker_epoch: int = 1, now_ms: float = 0) -> bool:
    return replicas.fetched(replica, offset, broker_epoch=broker_epoch, now_ms=now_ms)


def propose(replicas: ReplicaSet, now_ms: float = 0, registered: dict[int, int] = REGISTERED) -> frozenset[int] | None:
    return replicas.proposal(now_ms, lag_max_ms=LAG_MAX_MS, broker_epochs=registered)


# The high watermark


def test_the_high_watermark_is_the_least_of_what_the_leader_and_all_in_sync_followers_have_synced() -> None:
    replicas = led_by_one(1, 2, 3)
    assert not write(replicas, 5)
    assert not fetch(replicas, 2, 5)
    assert fetch(replicas, 3, 4)
    assert replicas.high_watermark == 4
    assert fetch(replicas, 3, 5)
    assert replicas.high_watermark == 5


def test_what_the_leader_has_not_synced_does_not_count() -> None:
    replicas = led_by_one(1, 2)
    replicas.appended(5)
    assert not fetch(replicas, 2, 5)
    assert replicas.leader_synced(3)
    assert replicas.high_watermark == 3


def test_a_follower_outside_the_in_sync_set_does_not_count() -> None:
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    assert fetch(replicas, 2, 5)
    assert replicas.high_watermark == 5


def test_nothing_is_known_of_followers_when_a_term_begins() -> None:
    replicas = led_by_one(1, 2, 3, start=7, end=7, high_watermark=4)
    assert (replicas.high_watermark, replicas.is_settled) == (4, False)
    assert not fetch(replicas, 2, 7)
    assert fetch(replicas, 3, 7)
    assert (replicas.high_watermark, replicas.is_settled) == (7, True)


def test_a_leader_that_is_the_only_member_commits_alone_if_one_is_enough() -> None:
    alone = led_by_one(1, start=7, end=7, high_watermark=4, min_insync_replicas=1)
    assert alone.high_watermark == 4
    assert alone.leader_synced(7)
    assert alone.high_watermark == 7
    too_few = led_by_one(1, start=7, end=7, high_watermark=4, min_insync_replicas=2)
    assert not too_few.leader_synced(7)
    assert too_few.high_watermark == 4


def test_it_does_not_go_back_when_a_follower_does() -> None:
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    fetch(replicas, 2, 5)
    assert not fetch(replicas, 2, 0, broker_epoch=2)
    assert (replicas.high_watermark, replicas.offset_of(2)) == (5, 0)


def test_it_does_not_move_while_fewer_than_min_insync_replicas_are_in() -> None:
    """Scenario 58."""
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    assert replicas.has_enough
    assert not replicas.isr_changed((1,))
    assert (replicas.has_enough, replicas.high_watermark) == (False, 0)
    fetch(replicas, 2, 5)
    assert replicas.isr_changed((1, 2))
    assert (replicas.has_enough, replicas.high_watermark) == (True, 5)


def test_no_more_are_required_than_there_are_replicas() -> None:
    assert led_by_one(1, 2, 3, min_insync_replicas=5).has_enough


def test_scenario_59_a_follower_counts_from_the_proposal_that_it_joins() -> None:
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    fetch(replicas, 3, 0)
    isr = propose(replicas)
    assert isr == {1, 2, 3}
    replicas.proposed(isr)
    assert (replicas.isr, replicas.maximal_isr) == ({1, 2}, {1, 2, 3})
    assert not fetch(replicas, 2, 5)
    assert replicas.high_watermark == 0
    assert fetch(replicas, 3, 5)


def test_scenario_59_a_refused_expansion_counts_until_its_refusal_is_known() -> None:
    replicas = led_by_one(1, 2)
    fetch(replicas, 3, 0)
    replicas.proposed(frozenset({1, 2, 3}))
    write(replicas, 5)
    assert not fetch(replicas, 2, 5)
    assert replicas.proposal_settled()
    assert (replicas.high_watermark, replicas.maximal_isr) == (5, {1, 2})


def test_scenario_59_a_follower_that_leaves_counts_until_that_is_known_to_be_committed() -> None:
    replicas = led_by_one(1, 2, 3)
    write(replicas, 5)
    fetch(replicas, 2, 5)
    replicas.proposed(frozenset({1, 2}))
    assert not replicas.leader_synced(5)
    assert replicas.high_watermark == 0
    assert replicas.isr_changed((1, 2))
    assert not replicas.proposal_settled()
    assert replicas.high_watermark == 5


def test_scenario_59_a_fetch_of_a_broker_epoch_before_the_last_one_is_no_progress() -> None:
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    fetch(replicas, 2, 0, broker_epoch=8)
    assert not fetch(replicas, 2, 5, broker_epoch=7)
    assert (replicas.high_watermark, replicas.offset_of(2)) == (0, 0)


# Joining


def test_scenario_60_a_follower_joins_when_it_has_reached_the_high_watermark_and_the_start_of_the_epoch() -> None:
    replicas = led_by_one(1, 2, start=7, end=9, high_watermark=4)
    fetch(replicas, 3, 4)
    assert propose(replicas) is None
    fetch(replicas, 3, 6)
    assert propose(replicas) is None
    fetch(replicas, 3, 7)
    assert propose(replicas) == {1, 2, 3}
    fetch(replicas, 2, 9)
    replicas.isr_changed((1, 2))
    assert (replicas.high_watermark, propose(replicas)) == (9, None)
    fetch(replicas, 3, 9)
    assert propose(replicas) == {1, 2, 3}


@pytest.mark.parametrize("registered", [{}, {3: 2}, {3: 0}])
def test_scenario_60_a_follower_joins_only_with_the_broker_epoch_of_its_registration(
    registered: dict[int, int],
) -> None:
    replicas = led_by_one(1, 2)
    assert propose(replicas) is None  # It has the empty log too, but has never fetched.
    fetch(replicas, 3, 0, broker_epoch=1)
    assert propose(replicas, registered=registered) is None
    assert propose(replicas, registered={3: 1}) == {1, 2, 3}


def test_one_proposal_is_under_way_at_a_time() -> None:
    replicas = led_by_one(1)
    fetch(replicas, 2, 0)
    replicas.proposed(frozenset({1, 2}))
    fetch(replicas, 3, 0)
    assert propose(replicas) is None
    replicas.proposal_settled()
    assert propose(replicas) == {1, 2, 3}
    replicas.proposed(frozenset({1, 2, 3}))
    with pytest.raises(AssertionError, match="outcome"):
        replicas.proposed(frozenset({1, 2}))


def test_a_proposal_that_the_high_watermark_has_overtaken_is_a_bug_of_the_caller() -> None:
    replicas = led_by_one(1, 2)
    fetch(replicas, 3, 0)
    isr = propose(replicas)
    assert isr is not None
    write(replicas, 5)
    fetch(replicas, 2, 5)
    with pytest.raises(AssertionError, match="broker 3 joins at 0, below 5"):
        replicas.proposed(isr)


# Leaving


def test_a_follower_leaves_when_it_has_not_caught_up_for_the_longest_lag() -> None:
    replicas = led_by_one(1, 2, 3)
    write(replicas, 5)
    fetch(replicas, 2, 5, now_ms=0)
    assert propose(replicas, now_ms=1) is None  # From here on broker 3 is seen to be behind.
    fetch(replicas, 2, 5, now_ms=LAG_MAX_MS + 1)
    assert propose(replicas, now_ms=LAG_MAX_MS + 1) is None
    assert propose(replicas, now_ms=LAG_MAX_MS + 2) == {1, 2}


def test_a_follower_that_always_reaches_the_last_end_but_never_the_present_one_stays() -> None:
    replicas = led_by_one(1, 2)
    for turn in range(1, 10):
        write(replicas, 10 * turn)
        fetch(replicas, 2, 10 * (turn - 1), now_ms=turn * LAG_MAX_MS)
        assert propose(replicas, now_ms=turn * LAG_MAX_MS) is None


def test_a_follower_that_fetches_but_falls_behind_leaves() -> None:
    replicas = led_by_one(1, 2)
    proposals = []
    for turn in range(1, 10):
        write(replicas, 10 * turn)
        fetch(replicas, 2, turn, now_ms=turn * LAG_MAX_MS / 4)
        proposals.append(propose(replicas, now_ms=turn * LAG_MAX_MS / 4))
    assert proposals == [None] * 5 + [{1}] * 4


def test_a_follower_without_anything_to_fetch_does_not_leave() -> None:
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    fetch(replicas, 2, 5)
    assert propose(replicas, now_ms=100 * LAG_MAX_MS) is None


def test_a_follower_that_was_removed_for_its_lag_does_not_come_back_before_it_has_caught_up() -> None:
    """The high watermark stands still with too few members, so that it has reached it all the time."""
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    fetch(replicas, 2, 0)
    assert propose(replicas, now_ms=LAG_MAX_MS + 1) == {1}
    replicas.isr_changed((1,))
    assert propose(replicas, now_ms=LAG_MAX_MS + 2) is None
    fetch(replicas, 2, 3, now_ms=LAG_MAX_MS + 3)
    assert propose(replicas, now_ms=LAG_MAX_MS + 3) is None
    fetch(replicas, 2, 5, now_ms=LAG_MAX_MS + 4)
    assert propose(replicas, now_ms=LAG_MAX_MS + 4) == {1, 2}


# Confirmation


def test_a_follower_that_has_left_by_itself_joins_again_by_a_later_fetch_only() -> None:
    replicas = led_by_one(1, 2, 3, end=1)
    for replica in (2, 3):
        fetch(replicas, replica, 1)
    replicas.isr_changed({1, 2})
    assert propose(replicas) is None
    fetch(replicas, 3, 1)
    assert propose(replicas) == {1, 2, 3}


def test_a_follower_that_catches_up_while_it_is_being_removed_joins_again_without_another_fetch() -> None:
    """It has no reason to fetch: nothing is written."""
    replicas = led_by_one(1, 2, 3, end=1)
    fetch(replicas, 2, 1)
    assert propose(replicas, now_ms=0) is None
    fetch(replicas, 2, 1, now_ms=LAG_MAX_MS)
    proposed = propose(replicas, now_ms=LAG_MAX_MS + 1)
    assert proposed == {1, 2}
    replicas.proposed(proposed)
    fetch(replicas, 3, 1, now_ms=LAG_MAX_MS + 2)
    replicas.isr_changed(proposed)
    replicas.proposal_settled()
    assert propose(replicas, now_ms=LAG_MAX_MS + 3) == {1, 2, 3}


def test_a_ticket_is_confirmed_when_every_other_member_has_replied_to_an_answer_that_left_after_it() -> None:
    replicas = led_by_one(1, 2, 3)
    before = replicas.last_ticket
    ticket = replicas.ask_confirmation()
    assert ticket == replicas.last_ticket
    assert not replicas.replied(2, before)
    assert not replicas.replied(2, ticket)
    assert not replicas.replied(3, before)
    assert replicas.confirmed_ticket < ticket
    assert replicas.replied(3, ticket)
    assert replicas.confirmed_ticket == ticket


def test_one_round_confirms_all_tickets_that_were_asked_before_it() -> None:
    replicas = led_by_one(1, 2)
    tickets = [replicas.ask_confirmation() for _ in range(3)]
    assert replicas.replied(2, tickets[1])
    assert replicas.confirmed_ticket == tickets[1]
    assert replicas.replied(2, tickets[2])
    assert replicas.confirmed_ticket == tickets[2]


def test_a_ticket_waits_until_everything_that_was_in_the_log_is_committed() -> None:
    replicas = led_by_one(1, 2)
    write(replicas, 5)
    ticket = replicas.ask_confirmation()
    write(replicas, 9)
    assert not replicas.replied(2, ticket)
    fetch(replicas, 2, 4)
    assert replicas.confirmed_ticket < ticket
    fetch(replicas, 2, 5)
    assert replicas.confirmed_ticket == ticket


def test_a_follower_that_is_about_to_join_must_reply_too() -> None:
    replicas = led_by_one(1, 2)
    fetch(replicas, 3, 0)
    replicas.proposed(frozenset({1, 2, 3}))
    ticket = replicas.ask_confirmation()
    assert not replicas.replied(2, ticket)
    assert replicas.replied(3, ticket)


def test_what_is_confirmed_stays_confirmed_when_the_set_grows() -> None:
    replicas = led_by_one(1, 2)
    ticket = replicas.ask_confirmation()
    replicas.replied(2, ticket)
    replicas.isr_changed((1, 2, 3))
    replicas.ask_confirmation()
    assert replicas.confirmed_ticket == ticket


def test_a_ticket_is_confirmed_by_the_shrink_that_removes_the_last_one_that_did_not_reply() -> None:
    replicas = led_by_one(1, 2, 3)
    ticket = replicas.ask_confirmation()
    replicas.replied(2, ticket)
    replicas.isr_changed((1, 2))
    assert replicas.confirmed_ticket == ticket


def test_the_only_member_confirms_itself() -> None:
    replicas = led_by_one(1)
    assert replicas.ask_confirmation() == replicas.confirmed_ticket == 1


def test_a_follower_leaves_when_a_confirmation_has_waited_for_it_for_the_longest_lag() -> None:
    replicas = led_by_one(1, 2, 3, end=1)
    for replica in (2, 3):
        fetch(replicas, replica, 1)
    ticket = replicas.ask_confirmation()
    assert propose(replicas, now_ms=1_000) is None
    replicas.replied(2, ticket)
    assert propose(replicas, now_ms=1_000 + LAG_MAX_MS) is None
    proposed = propose(replicas, now_ms=1_001 + LAG_MAX_MS)
    assert proposed == {1, 2}
    replicas.proposed(proposed)
    replicas.isr_changed(proposed)
    replicas.proposal_settled()
    assert replicas.confirmed_ticket == ticket
    assert propose(replicas, now_ms=2_000 + LAG_MAX_MS) is None, "it has everything, and is silent"
    fetch(replicas, 3, 1, now_ms=3_000 + LAG_MAX_MS)
    assert propose(replicas, now_ms=3_000 + LAG_MAX_MS) == {1, 2, 3}


def test_a_follower_that_replies_again_and_again_stays() -> None:
    """At each look there is a question that it has not replied to yet."""
    replicas = led_by_one(1, 2, 3, end=1)
    for replica in (2, 3):
        fetch(replicas, replica, 1)
    for now_ms in range(0, 5 * LAG_MAX_MS, LAG_MAX_MS // 2):
        before, _ = replicas.last_ticket, replicas.ask_confirmation()
        assert propose(replicas, now_ms=now_ms) is None
        for replica in (2, 3):
            replicas.replied(replica, before)
