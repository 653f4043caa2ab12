"""Bugs that transaction coordinators have had, or could have, planted one by one: a test must fail for each of them.

Named after the scenario or the bug report. The test that is named beside a bug passes on a copy without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from semel.coordinator.transaction.settings import TransactionSettings
from tests.properties.coordinator.exhaustive import search
from tests.properties.coordinator.small_cluster import Cluster, Scope
from tests.unit.coordinator.transaction import (
    test_add_partitions,
    test_end_txn,
    test_end_txn_v1,
    test_failover,
    test_init_producer_id,
    test_timeouts,
)
from tests.unit.coordinator.transaction.planted import Bug, make_bench, make_shard

Test = Callable[..., None]

BUGS: dict[str, tuple[Bug, Test, dict[str, Any]]] = {
    "16: whoever is taken over learns of the epoch it was fenced with": (
        Bug("transitions", "None if takeover else transaction.producer_epoch", "transaction.producer_epoch"),
        test_init_producer_id.test_an_instance_that_was_taken_over_is_fenced_even_before_the_new_one_is_granted,
        {},
    ),
    "16: a new instance does not abort what is open": (
        Bug(
            "decisions",
            "if transaction.state is TxnState.ONGOING:\n        prepared = aborted(",
            "if False:\n        prepared = aborted(",
        ),
        test_init_producer_id.test_a_new_instance_aborts_what_is_open_first,
        {},
    ),
    "16: an old cluster fences without a bump": (
        Bug(
            "transitions",
            "producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),\n        last_producer_epoch=transaction",
            "last_producer_epoch=transaction",
        ),
        test_init_producer_id.test_an_old_cluster_fences_what_is_open_with_the_bumped_epoch,
        {},
    ),
    "17: InitProducerId does not wait for a decision": (
        Bug(
            "decisions",
            "if transaction.state in PREPARED:\n        return ask_again(InitProducerIdResult",
            "if False:\n        return ask_again(InitProducerIdResult",
        ),
        test_init_producer_id.test_a_decided_transaction_is_waited_for_and_never_reversed,
        {"committed": True},
    ),
    "17: a partition is added to a transaction that is decided": (
        Bug("shard", "if transaction.state in PREPARED and not verify_only:", "if False:"),
        test_add_partitions.test_nothing_is_added_to_a_transaction_that_is_decided,
        {"committed": True},
    ),
    "18: a repeated InitProducerId is fenced": (
        Bug("decisions", "transaction.state in IDLE and transaction.is_last(*identity)", "False"),
        test_init_producer_id.test_a_repeated_resume_gets_the_same_answer_and_no_second_bump,
        {"crash": False},
    ),
    "18: a failover forgets the last epoch, as Kafka's does": (
        Bug("records", "DERIVED_EPOCH if derived else record.last_producer_epoch", "DERIVED_EPOCH"),
        test_init_producer_id.test_a_repeated_resume_gets_the_same_answer_and_no_second_bump,
        {"crash": True},
    ),
    "18: a stale InitProducerId aborts what is open, as Kafka's does": (
        Bug(
            "decisions",
            "if identity is not None and not owns:",
            "if identity is not None and not owns and transaction.state in IDLE:",
        ),
        test_init_producer_id.test_a_delayed_resume_does_not_abort_what_its_owner_has_begun_since,
        {},
    ),
    "19: the reserved epoch is given out": (
        Bug("records", "self.producer_epoch >= EPOCH_MAX - 1", "self.producer_epoch >= EPOCH_MAX"),
        test_init_producer_id.test_the_last_epoch_is_reserved_for_fencing,
        {},
    ),
    "19, KAFKA-18660: the answer carries the producer id that has no epochs left": (
        Bug("decisions", "if transaction.next_producer_id is None:", "if True:"),
        test_end_txn.test_when_the_epochs_are_exhausted_the_producer_goes_on_with_a_new_id,
        {"committed": True},
    ),
    "19, KAFKA-18660: an end is not recognised across the rotation": (
        Bug("records", "and producer_id == self.last_producer_id", "and producer_id == self.producer_id"),
        test_end_txn.test_a_repeated_end_is_recognised_across_the_rotation,
        {"committed": True, "crash": False},
    ),
    "19, KAFKA-19367: a timeout at the last epoch does not rotate": (
        Bug(
            "shard",
            "new_producer_id=self._next_producer_id() if transaction.epochs_exhausted else None",
            "new_producer_id=None",
        ),
        test_timeouts.test_at_the_last_epoch_a_timeout_rotates_the_producer_id,
        {},
    ),
    "20: a repeated end is told the outcome that it asks for": (
        Bug("decisions", "if transitions.is_commit(transaction) != committed:", "if False:"),
        test_end_txn.test_a_repeated_end_with_the_other_outcome_is_refused,
        {"committed": True},
    ),
    "20: V1 answers an abort after a commit": (
        Bug("decisions", "transaction.state in COMPLETE and transitions.is_commit(transaction) == committed", "True"),
        test_end_txn_v1.test_a_repeated_end_with_the_other_outcome_is_refused,
        {"committed": True},
    ),
    "21, KAFKA-17754: V2 takes an end of the epoch before": (
        Bug(
            "decisions",
            "if not transaction.is_present(producer_id, producer_epoch):",
            "if transaction.producer_epoch < producer_epoch:",
        ),
        test_end_txn.test_an_end_that_was_delayed_until_the_next_transaction_is_open_never_touches_it,
        {"committed": True},
    ),
    "21: V2 does not bump": (
        Bug(
            "transitions",
            "transaction.producer_epoch + 1, EPOCH_MAX),\n        last_producer_epoch=None if takeover",
            "transaction.producer_epoch, EPOCH_MAX),\n        last_producer_epoch=None if takeover",
        ),
        test_end_txn.test_an_end_that_was_delayed_until_the_next_transaction_is_open_never_touches_it,
        {"committed": False},
    ),
    "23: an abort without partitions is refused": (
        Bug("decisions", "if committed and (transaction.state", "if (transaction.state"),
        test_end_txn.test_an_abort_without_partitions_bumps_the_epoch_all_the_same,
        {"committed": True},
    ),
    "24: a handler changes the state by itself": (
        Bug(
            "shard",
            "return Decision(AddPartitionsResult(), records=(added,))",
            "self.replay(added)\n        return Decision(AddPartitionsResult(), records=(added,))",
        ),
        test_init_producer_id.test_a_decision_changes_nothing_before_its_records_are_replayed,
        {},
    ),
    "25: two instances get the same identity": (
        Bug("decisions", "transaction.producer_epoch + 1)", "transaction.producer_epoch)"),
        test_init_producer_id.test_two_inits_in_any_order_never_get_the_same_identity,
        {},
    ),
    "26: a timeout does not fence": (
        Bug(
            "decisions",
            "return transitions.fenced_v1(transaction, by_owner=why is AbortedFor.OWNER, now_ms=now_ms)",
            "return transitions.prepared_v1(transaction, committed=False, now_ms=now_ms)",
        ),
        test_timeouts.test_an_old_cluster_fences_a_producer_that_timed_out,
        {},
    ),
    "26: the timeout counts from the last partition": (
        Bug("transitions", "started_ms=now_ms if begins else transaction.started_ms", "started_ms=now_ms"),
        test_timeouts.test_the_time_of_a_transaction_counts_from_its_first_partition,
        {},
    ),
    "26: a clock that is set back prolongs a transaction": (
        Bug("shard", "self._ongoing.shift(offset_ms - self._wall_offset_ms)", "pass"),
        test_timeouts.test_a_clock_that_is_set_back_does_not_prolong_a_transaction,
        {"back_ms": 3_600_000},
    ),
    "26: a partition that is added takes the corrected deadline back": (
        Bug("shard", "or due_ms != _due_ms(open_before)", "or True"),
        test_timeouts.test_a_clock_that_is_set_back_does_not_prolong_a_transaction,
        {"back_ms": 2_000},
    ),
    "31: the start of a transaction is in the future, and is believed": (
        Bug("shard", "transaction.started_ms > moment.wall_ms", "False"),
        test_timeouts.test_a_coordinator_whose_clock_is_behind_that_of_the_one_before_gives_a_transaction_its_timeout,
        {},
    ),
    "27: a timeout strikes after the decision": (
        Bug("shard", "else:\n            self._ongoing.discard(transactional_id)", "else:\n            pass"),
        test_timeouts.test_a_timeout_that_comes_after_the_decision_changes_nothing,
        {"committed": True},
    ),
    "28: an id expires while its transaction is undecided": (
        Bug("shard", "transaction.state in IDLE and transaction.updated_ms", "transaction.updated_ms"),
        test_timeouts.test_an_id_expires_only_while_nothing_is_undecided_or_owed,
        {"committed": True},
    ),
    "29: any timeout will do": (
        Bug("shard", "if not 0 < timeout_ms <= self._settings.max_timeout_ms:", "if timeout_ms <= 0:"),
        test_init_producer_id.test_a_timeout_beyond_the_limit_is_refused,
        {"timeout_ms": 900_001},
    ),
    "32: a new coordinator does not finish what was decided": (
        Bug("shard", "for transactional_id in self._prepared\n", "for transactional_id in ()\n"),
        test_failover.test_a_crash_before_any_marker_is_followed_by_the_decided_outcome,
        {"version": 2, "committed": True},
    ),
    "32: a new coordinator aborts what was decided to commit": (
        Bug("transitions", "in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)", "is TxnState.COMPLETE_COMMIT"),
        test_failover.test_a_crash_before_any_marker_is_followed_by_the_decided_outcome,
        {"version": 2, "committed": True},
    ),
    "33: a late acknowledgement completes the next transaction": (
        Bug("shard", "or not transaction.is_present(producer_id, producer_epoch)", "or False"),
        test_end_txn.test_acknowledged_markers_of_another_epoch_complete_nothing,
        {},
    ),
    "34: markers that are acknowledged twice complete twice": (
        Bug("shard", "or transaction.state not in PREPARED\n", "or False\n"),
        test_end_txn.test_markers_that_are_acknowledged_twice_complete_once,
        {},
    ),
    "35: a new coordinator signs with the epoch of the old one": (
        Bug("shard", "self.coordinator_epoch = coordinator_epoch", "self.coordinator_epoch = 0"),
        test_failover.test_a_crash_before_any_marker_is_followed_by_the_decided_outcome,
        {"version": 2, "committed": True},
    ),
    "42: what has ended can still be written to": (
        Bug(
            "transitions",
            "return _moved(transaction, state, now_ms, partitions=NO_PARTITIONS)",
            "return _moved(transaction, state, now_ms)",
        ),
        test_add_partitions.test_after_the_end_nothing_is_in_the_transaction_any_more,
        {},
    ),
    "redpanda #6018: partitions that were added first get no marker": (
        Bug("transitions", "else transaction.partitions | partitions", "else partitions"),
        test_add_partitions.test_further_partitions_join_it_and_the_start_stays,
        {},
    ),
    "a zombie gets the identity of its successor, as it may from Kafka": (
        Bug(
            "decisions",
            "transaction.is_last(producer_id, producer_epoch)",
            "producer_epoch + 1 == transaction.producer_epoch",
        ),
        test_end_txn.test_an_end_of_v1_is_not_taken_for_a_bump,
        {"committed": False},
    ),
}


@pytest.mark.parametrize(("bug", "test", "arguments"), BUGS.values(), ids=BUGS)
def test_a_planted_bug_fails_its_test_and_without_it_the_test_passes(
    bug: Bug, test: Test, arguments: dict[str, Any]
) -> None:
    old_cluster = "old_bench" in inspect.signature(test).parameters
    settings = TransactionSettings(transaction_version=1 if old_cluster else 2)
    copy = bug._replace(wrong=bug.right)
    test(make_bench(copy, settings), **arguments)
    with pytest.raises((AssertionError, ValueError)):
        test(make_bench(bug, settings), **arguments)


SEEN_BY_THE_SEARCH = [
    "16: a new instance does not abort what is open",
    "17: InitProducerId does not wait for a decision",
    "21, KAFKA-17754: V2 takes an end of the epoch before",
    "21: V2 does not bump",
    "25: two instances get the same identity",
    "32: a new coordinator does not finish what was decided",
    "32: a new coordinator aborts what was decided to commit",
    "35: a new coordinator signs with the epoch of the old one",
    "redpanda #6018: partitions that were added first get no marker",
]


@pytest.mark.parametrize("name", SEEN_BY_THE_SEARCH)
def test_the_search_of_all_small_states_sees_it_without_being_told_where_to_look(name: str) -> None:
    scope = Scope(scripts=(((0,), (0, 1)), ((0,),)), faults=1, timeouts=0, commits_at_once=True)
    assert search(Cluster(scope, make_shard(BUGS[name][0]))).broken is not None
