"""EndTxn with transactions V1: the epoch stays, so the state is all there is to go by."""

from __future__ import annotations

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.transaction.results import EndTxnResult
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from tests.unit.coordinator.transaction.bench import P0, P1, Bench
from tests.unit.coordinator.transaction.test_end_txn import COMPLETE, OUTCOMES, PREPARE


@OUTCOMES
def test_the_epoch_stays_and_the_answer_carries_none(bench: Bench, committed: bool) -> None:
    identity = bench.init()
    bench.add(identity, P0, P1, version=0)
    ongoing = bench.transaction
    decision = bench.decide_end(identity, committed=committed, version=0)
    assert decision.response == EndTxnResult()
    assert decision.records == (ongoing._replace(state=PREPARE[committed], client_transaction_version=0),)
    (marker,) = decision.effects
    assert (marker.producer_epoch, marker.transaction_version) == (identity.producer_epoch, 0)


@OUTCOMES
def test_a_repeated_end_is_answered_without_a_second_record(bench: Bench, committed: bool) -> None:
    """Scenario 20."""
    identity = bench.init()
    bench.transact(identity, committed=committed, version=0)
    assert bench.transaction.state is COMPLETE[committed]
    bench.crash()
    assert bench.decide_end(identity, committed=committed, version=0) == Decision(EndTxnResult())


@OUTCOMES
def test_a_repeated_end_with_the_other_outcome_is_refused(bench: Bench, committed: bool) -> None:
    """Scenario 20."""
    identity = bench.init()
    bench.transact(identity, committed=committed, version=0)
    assert bench.end_error(identity, committed=not committed, version=0) is ErrorCode.INVALID_TXN_STATE


@OUTCOMES
def test_an_end_while_markers_are_written_is_to_be_repeated(bench: Bench, committed: bool) -> None:
    """Scenario 17."""
    identity = bench.init()
    bench.add(identity, P0, version=0)
    bench.end(identity, committed=committed, version=0)
    for outcome in (True, False):
        assert bench.end_error(identity, committed=outcome, version=0) is ErrorCode.CONCURRENT_TRANSACTIONS


@OUTCOMES
def test_an_end_without_partitions_is_refused(bench: Bench, committed: bool) -> None:
    """Scenario 23."""
    identity = bench.init()
    assert bench.end_error(identity, committed=committed, version=0) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_a_delayed_end_hits_the_next_transaction_as_it_does_in_kafka(bench: Bench, committed: bool) -> None:
    """Scenario 22, KAFKA-17754: the known limitation, stated so that the documentation stays honest.

    Only a client that speaks V2 is safe from it: see scenario 21.
    """
    identity = bench.init()
    bench.transact(identity, committed=committed, version=0)
    bench.add(identity, P0, version=0)
    bench.end(identity, committed=committed, version=0)  # The first EndTxn, which the network had held back.
    assert bench.transaction.state is PREPARE[committed]


def test_a_v1_client_of_a_v2_cluster_is_fenced_by_a_timeout(bench: Bench) -> None:
    """Scenario 26."""
    identity = bench.init()
    bench.add(identity, P0, version=0)
    bench.now_ms += 60_001
    for decision in bench.shard.time_out(bench.moment):
        bench.run(decision)
    bench.write_markers()
    assert bench.transaction.state is TxnState.COMPLETE_ABORT
    for committed in (True, False):
        assert bench.end_error(identity, committed=committed, version=0) is ErrorCode.PRODUCER_FENCED
