"""Coordinator failover: what was decided is finished, what was not is as it was."""

from __future__ import annotations

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.transaction.records import Transaction
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from tests.unit.coordinator.transaction.bench import EPOCH_LAST, P0, P1, Bench
from tests.unit.coordinator.transaction.test_end_txn import COMPLETE, OUTCOMES, PREPARE

VERSIONS = pytest.mark.parametrize("version", [0, 2], ids=["V1", "V2"])


@VERSIONS
@OUTCOMES
def test_a_crash_before_the_decision_is_durable_leaves_the_transaction_open(
    bench: Bench, version: int, committed: bool
) -> None:
    """Scenario 31: the client repeats its request and gets the answer it would have got."""
    identity = bench.init()
    bench.add(identity, P0, version=version)
    decided = bench.decide_end(identity, committed=committed, version=version)  # Never appended.
    bench.crash()
    assert bench.transaction.state is TxnState.ONGOING
    assert bench.markers == []
    again = bench.decide_end(identity, committed=committed, version=version)
    assert (again.response, again.records) == (decided.response, decided.records)


@VERSIONS
@OUTCOMES
def test_a_crash_before_any_marker_is_followed_by_the_decided_outcome(
    bench: Bench, version: int, committed: bool
) -> None:
    """Scenarios 32 and 33: all markers are sent again, under the new coordinator's epoch."""
    identity = bench.init()
    bench.add(identity, P0, P1, version=version)
    bench.end(identity, committed=committed, version=version)
    (before,) = bench.markers
    bench.crash()
    assert bench.transaction.state is PREPARE[committed]
    (after,) = bench.markers
    assert after.coordinator_epoch == before.coordinator_epoch + 1
    assert (after.committed, after.partitions) == (committed, frozenset({P0, P1}))
    assert (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch)
    assert after.transaction_version == version
    assert bench.end_error(identity, committed=committed, version=version) in (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.PRODUCER_FENCED,
    )
    bench.write_markers()
    assert bench.transaction.state is COMPLETE[committed]


@OUTCOMES
def test_a_crash_after_all_markers_is_finished_by_sending_them_again(bench: Bench, committed: bool) -> None:
    """Scenario 34: the acknowledgements were lost with the coordinator; then COMPLETE, once."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.end(identity, committed=committed)
    for _ in range(3):
        bench.crash()
        assert len(bench.markers) == 1
    bench.write_markers()
    bench.crash()
    assert bench.markers == []
    assert bench.transaction.state is COMPLETE[committed]


@OUTCOMES
def test_a_crash_in_the_middle_of_a_rotation_keeps_the_promised_producer_id(bench: Bench, committed: bool) -> None:
    """Scenarios 19 and 32: the client was answered with it."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    bench.add(last, P0)
    rotated = bench.end(last, committed=committed)
    bench.crash()
    bench.write_markers()
    bench.add(rotated, P1)


@VERSIONS
def test_live_state_equals_the_replay_of_the_log_after_every_record(bench: Bench, version: int) -> None:
    """Scenarios 31 to 34: so no request is answered differently after a failover."""

    def check() -> None:
        live = bench.transaction
        markers = [(marker.producer_id, marker.producer_epoch, marker.committed) for marker in bench.markers]
        bench.crash()
        assert bench.transaction == live
        assert [(marker.producer_id, marker.producer_epoch, marker.committed) for marker in bench.markers] == markers

    identity = bench.init()
    check()
    identity = bench.init(identity)
    check()
    for start_epoch in (identity.producer_epoch, EPOCH_LAST - 1):
        identity = bench.at_epoch(start_epoch)
        for committed in (True, False, True):
            bench.add(identity, P0, version=version)
            check()
            bench.add(identity, P1, version=version)
            check()
            identity = bench.end(identity, committed=committed, version=version)
            check()
            bench.write_markers()
            check()
    bench.add(identity, P0, version=version)
    bench.run(bench.decide_init())
    check()
    bench.write_markers()
    check()
    bench.init()
    check()


def test_a_decision_that_rests_on_uncommitted_records_has_none_of_its_own_to_tell(bench: Bench) -> None:
    """Bug museum, redpanda #6018: the runtime holds such an answer back; here is one that a crash would take back."""
    identity = bench.init()
    added = bench.decide_add(identity, P0)
    for record in added.records:
        bench.shard.replay(record)  # Appended and not yet committed.
    rests_on_it = bench.decide_add(identity, P0)
    assert rests_on_it == Decision(added.response)
    bench.crash()
    assert bench.decide_add(identity, P0).records != ()


def test_replay_takes_the_last_word_whatever_compaction_left(bench: Bench) -> None:
    """Compaction may drop every record but the last of an id; the shard does not mind."""
    identity = bench.init()
    bench.transact(identity, committed=True)
    bench.log = bench.log[-1:]
    live = bench.transaction
    bench.crash()
    assert bench.transaction == live
    assert isinstance(bench.transaction, Transaction)
