"""What the coordinator does by itself: transactions time out, and ids that nobody uses are forgotten."""

from __future__ import annotations

from itertools import islice

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.transaction.records import Tombstone
from semel.coordinator.transaction.results import EndTxnResult
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import INT32_MAX, ProducerIdentity
from tests.unit.coordinator.transaction.bench import EPOCH_LAST, ID, P0, P1, TIMEOUT_MS, Bench

HOUR_MS = 3600 * 1000
WEEK_MS = 7 * 24 * HOUR_MS


def time_out(bench: Bench) -> list[str]:
    """One sweep; the transactions that it aborted."""
    return [bench.run(decision) for decision in bench.shard.time_out(bench.moment)]


def expire(bench: Bench) -> list[str]:
    return [bench.run(decision) for decision in bench.shard.expire(bench.now_ms)]


def test_an_open_transaction_is_aborted_under_the_next_epoch_once_its_time_is_over(bench: Bench) -> None:
    """Scenario 26."""
    identity = bench.init()
    bench.add(identity, P0, P1)
    bench.now_ms += TIMEOUT_MS
    assert time_out(bench) == []
    bench.now_ms += 1
    assert time_out(bench) == [ID]
    assert bench.transaction.state is TxnState.PREPARE_ABORT
    (marker,) = bench.markers
    assert (marker.committed, marker.producer_epoch, marker.partitions) == (False, 1, frozenset({P0, P1}))
    assert time_out(bench) == []
    assert bench.add_error(identity, P0) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.write_markers()
    assert bench.add_error(identity, P0) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_timed_out_may_abort_and_go_on(bench: Bench) -> None:
    """Scenario 26, as Kafka 4.3: its abort is answered with the epoch of the coordinator's, its commit is not."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.now_ms += TIMEOUT_MS + 1
    time_out(bench)
    bench.write_markers()
    assert bench.end_error(identity, committed=True) is ErrorCode.INVALID_TXN_STATE
    after = bench.end(identity, committed=False)
    assert after == (identity.producer_id, identity.producer_epoch + 1)
    bench.add(after, P0)


def test_an_old_cluster_fences_a_producer_that_timed_out(old_bench: Bench) -> None:
    """Scenario 26, without transactions V2."""
    identity = old_bench.init()
    old_bench.add(identity, P0, version=0)
    old_bench.now_ms += TIMEOUT_MS + 1
    assert time_out(old_bench) == [ID]
    old_bench.write_markers()
    for committed in (True, False):
        assert old_bench.end_error(identity, committed=committed, version=0) is ErrorCode.PRODUCER_FENCED
    assert old_bench.init_error(identity) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_a_timeout_that_comes_after_the_decision_changes_nothing(bench: Bench, committed: bool) -> None:
    """Scenario 27: exactly one outcome, the one that was recorded first."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.end(identity, committed=committed)
    bench.now_ms += TIMEOUT_MS + 1
    assert time_out(bench) == []
    bench.write_markers()
    assert time_out(bench) == []
    assert bench.transaction.state is (TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT)


def test_a_commit_that_comes_after_the_timeout_is_told_so(bench: Bench) -> None:
    """Scenario 27."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.now_ms += TIMEOUT_MS + 1
    time_out(bench)
    assert bench.end_error(identity, committed=True) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.write_markers()
    assert bench.end_error(identity, committed=True) is ErrorCode.INVALID_TXN_STATE


def test_at_the_last_epoch_a_timeout_rotates_the_producer_id(bench: Bench) -> None:
    """Scenarios 19 and 26, KAFKA-19367: the abort that the producer repeats is still known as one."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    bench.add(last, P0)
    bench.now_ms += TIMEOUT_MS + 1
    bench.has_producer_ids = False
    assert time_out(bench) == []
    bench.has_producer_ids = True
    assert time_out(bench) == [ID]
    bench.write_markers()
    rotated = ProducerIdentity(last.producer_id + 1, 0)
    assert bench.decide_end(last, committed=False) == Decision(EndTxnResult(ErrorCode.NONE, *rotated))


def test_the_oldest_go_first_and_as_many_as_are_taken(bench: Bench) -> None:
    for number in range(5):
        identity = bench.run(bench.decide_init(transactional_id=f"id-{number}", timeout_ms=5_000 - 1_000 * number))
        assert identity.producer_id is not None
        bench.run(bench.decide_add(ProducerIdentity(identity.producer_id, 0), P0, transactional_id=f"id-{number}"))
    bench.now_ms += 4_500
    decisions = islice(bench.shard.time_out(bench.moment), 3)
    assert [decision.response for decision in decisions] == ["id-4", "id-3", "id-2"]
    decisions = bench.shard.time_out(bench.moment)
    assert [decision.response for decision in decisions] == ["id-4", "id-3", "id-2", "id-1"]


def test_the_time_of_a_transaction_counts_from_its_first_partition(bench: Bench) -> None:
    identity = bench.init()
    bench.now_ms += 10 * TIMEOUT_MS
    bench.add(identity, P0)
    bench.now_ms += TIMEOUT_MS - 1
    bench.add(identity, P1)
    assert time_out(bench) == []
    bench.now_ms += 2
    assert time_out(bench) == [ID]


def test_a_failed_append_of_a_timeout_is_tried_again(bench: Bench) -> None:
    """Scenario 24."""
    bench.add(bench.init(), P0)
    bench.now_ms += TIMEOUT_MS + 1
    first = list(bench.shard.time_out(bench.moment))
    assert list(bench.shard.time_out(bench.moment)) == first
    assert len(first) == 1


def test_open_transactions_time_out_after_a_failover_as_before(bench: Bench) -> None:
    """Scenario 31."""
    bench.add(bench.init(), P0)
    bench.crash()
    bench.now_ms += TIMEOUT_MS + 1
    assert time_out(bench) == [ID]


@pytest.mark.parametrize("back_ms", [2_000, HOUR_MS])
def test_a_clock_that_is_set_back_does_not_prolong_a_transaction(bench: Bench, back_ms: int) -> None:
    """Scenario 26."""
    identity = bench.init()
    bench.add(identity, P0)
    assert time_out(bench) == []
    bench.now_ms += TIMEOUT_MS // 2
    bench.set_clock(-back_ms)
    assert time_out(bench) == []
    bench.add(identity, P1)
    bench.now_ms += TIMEOUT_MS // 2
    assert time_out(bench) == []
    bench.now_ms += 1
    assert time_out(bench) == [ID]
    bench.write_markers()
    # What begins after that has the whole time.
    bench.add(bench.init(), P0)
    bench.now_ms += TIMEOUT_MS
    assert time_out(bench) == []
    bench.now_ms += 1
    assert time_out(bench) == [ID]


def test_a_clock_that_is_set_back_little_by_little_does_not_either(bench: Bench) -> None:
    bench.add(bench.init(), P0)
    assert time_out(bench) == []
    for _ in range(100):
        bench.set_clock(-100)
        assert time_out(bench) == []
    bench.now_ms += TIMEOUT_MS + 1_000
    assert time_out(bench) == [ID]


def test_a_coordinator_whose_clock_is_behind_that_of_the_one_before_gives_a_transaction_its_timeout(
    bench: Bench,
) -> None:
    """Scenario 31, with brokers whose clocks differ."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.crash()
    bench.set_clock(-HOUR_MS)
    assert time_out(bench) == []
    bench.now_ms += TIMEOUT_MS
    bench.add(identity, P1)
    assert time_out(bench) == []
    bench.now_ms += 1
    assert time_out(bench) == [ID]


def test_an_id_that_nobody_used_for_a_week_is_forgotten(bench: Bench) -> None:
    """Scenario 28."""
    identity = bench.init()
    bench.now_ms += WEEK_MS - 1
    assert expire(bench) == []
    bench.now_ms += 1
    decisions = bench.shard.expire(bench.now_ms)
    assert decisions == [Decision(ID, records=(Tombstone(ID),))]
    assert bench.shard.get(ID) is not None, "a failed append keeps it"
    assert expire(bench) == [ID]
    assert bench.shard.get(ID) is None
    assert bench.add_error(identity, P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.end_error(identity, committed=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bench.crash()
    assert bench.shard.get(ID) is None
    assert bench.init(identity) == (identity.producer_id + 1, 0)


@pytest.mark.parametrize("committed", [True, False])
def test_an_id_expires_only_while_nothing_is_undecided_or_owed(bench: Bench, committed: bool) -> None:
    """Scenario 28."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.now_ms += 10 * WEEK_MS
    assert expire(bench) == []
    bench.end(identity, committed=committed)
    bench.now_ms += 10 * WEEK_MS
    assert expire(bench) == []
    bench.write_markers()
    assert expire(bench) == [], "it was used just now"
    bench.now_ms += WEEK_MS
    assert expire(bench) == [ID]


def test_the_search_for_expired_ids_takes_turns() -> None:
    """Every id is looked at once per round, whatever comes and goes meanwhile."""
    bench = Bench(TransactionSettings(transactional_id_expiration_ms=1_000))
    for number in range(10):
        bench.run(bench.decide_init(transactional_id=f"id-{number}"))
    bench.now_ms += 1_000
    found = []
    for turn in range(4):
        found += [bench.run(decision) for decision in bench.shard.expire(bench.now_ms, examined_max=3)]
        bench.run(bench.decide_init(transactional_id=f"new-{turn}"))
    assert sorted(found) == [f"id-{number}" for number in range(10)]
    assert len(bench.shard) == 4


def test_a_tombstone_of_an_open_transaction_is_forgotten_in_every_index(bench: Bench) -> None:
    """No handler writes one; a log may hold it nevertheless."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.commit(Tombstone(ID))
    assert time_out(bench) == []
    bench.add(bench.init(), P0)
    bench.end(ProducerIdentity(bench.transaction.producer_id, 0), committed=True)
    bench.commit(Tombstone(ID))
    assert bench.shard.pending_markers() == []
    assert list(bench.shard.open_transactions()) == []


def test_a_transaction_that_somebody_else_decides_on_never_times_out(bench: Bench) -> None:
    """KIP-939, in a log of Kafka's: the sign of it is the longest timeout there is."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.commit(bench.transaction._replace(timeout_ms=INT32_MAX))
    bench.now_ms += 2**32
    assert time_out(bench) == []
    assert [transaction.transactional_id for transaction in bench.shard.open_transactions()] == [ID]
