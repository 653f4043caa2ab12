"""EndTxn with transactions V2: every end bumps the epoch, so a repeated or delayed one is known for what it is."""

from __future__ import annotations

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.transaction.records import NO_PARTITIONS, Transaction
from semel.coordinator.transaction.results import EndTxnResult, WriteMarkers
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import ProducerIdentity
from tests.unit.coordinator.transaction.bench import EPOCH_LAST, ID, P0, P1, Bench

COMPLETE = {True: TxnState.COMPLETE_COMMIT, False: TxnState.COMPLETE_ABORT}
PREPARE = {True: TxnState.PREPARE_COMMIT, False: TxnState.PREPARE_ABORT}
OUTCOMES = pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])


@OUTCOMES
def test_an_end_is_one_record_and_the_markers_that_follow_from_it(bench: Bench, committed: bool) -> None:
    identity = bench.init()
    bench.add(identity, P0, P1)
    ongoing = bench.transaction
    bench.now_ms += 5
    decision = bench.decide_end(identity, committed=committed)
    assert decision == Decision(
        EndTxnResult(producer_id=identity.producer_id, producer_epoch=1),
        records=(
            ongoing._replace(
                state=PREPARE[committed],
                producer_epoch=1,
                last_producer_epoch=0,
                updated_ms=bench.now_ms,
                client_transaction_version=2,
            ),
        ),
        effects=(
            WriteMarkers(
                transactional_id=ID,
                producer_id=identity.producer_id,
                producer_epoch=1,
                committed=committed,
                partitions=frozenset({P0, P1}),
                coordinator_epoch=0,
                transaction_version=2,
            ),
        ),
    )


@OUTCOMES
def test_the_transaction_is_complete_when_the_markers_are_written(bench: Bench, committed: bool) -> None:
    identity = bench.init()
    bench.add(identity, P0, P1)
    bench.end(identity, committed=committed)
    prepared = bench.transaction
    bench.now_ms += 5
    bench.write_markers()
    assert bench.transaction == prepared._replace(
        state=COMPLETE[committed], partitions=NO_PARTITIONS, updated_ms=bench.now_ms
    )


@OUTCOMES
@pytest.mark.parametrize("crash", [False, True])
def test_a_repeated_end_is_answered_without_a_second_record(bench: Bench, committed: bool, crash: bool) -> None:
    """Scenario 20, also across a failover."""
    identity = bench.init()
    after = bench.transact(identity, committed=committed)
    if crash:
        bench.crash()
    again = EndTxnResult(producer_id=after.producer_id, producer_epoch=after.producer_epoch)
    assert bench.decide_end(identity, committed=committed) == Decision(again)


@OUTCOMES
def test_a_repeated_end_with_the_other_outcome_is_refused(bench: Bench, committed: bool) -> None:
    """Scenario 20."""
    identity = bench.init()
    bench.transact(identity, committed=committed)
    assert bench.end_error(identity, committed=not committed) is ErrorCode.INVALID_TXN_STATE


@OUTCOMES
def test_an_end_while_markers_are_written_is_to_be_repeated(bench: Bench, committed: bool) -> None:
    """Scenario 17, and from whoever it comes: the producer may be ahead of the record."""
    identity = bench.init()
    bench.add(identity, P0)
    after = bench.end(identity, committed=committed)
    for asking in (identity, after):
        for outcome in (True, False):
            assert bench.end_error(asking, committed=outcome) is ErrorCode.CONCURRENT_TRANSACTIONS


@OUTCOMES
def test_an_end_that_was_delayed_until_the_next_transaction_is_open_never_touches_it(
    bench: Bench, committed: bool
) -> None:
    """Scenario 21, KAFKA-17754."""
    first = bench.init()
    second = bench.transact(first, committed=committed)
    bench.add(second, P0)
    open_transaction = bench.transaction
    for outcome in (True, False):
        assert bench.end_error(first, committed=outcome) is ErrorCode.PRODUCER_FENCED
    assert bench.transaction is open_transaction
    bench.transact(second, committed=True)
    assert bench.end_error(first, committed=committed) is ErrorCode.PRODUCER_FENCED


@OUTCOMES
def test_an_abort_without_partitions_bumps_the_epoch_all_the_same(bench: Bench, committed: bool) -> None:
    """Scenario 23, as Kafka 4.3: a write of that transaction may still be on its way, and comes too late now.

    There are no markers to wait for, so the id is never seen between PREPARE and COMPLETE.
    """
    identities = [bench.init()]
    identities.append(bench.transact(identities[-1], committed=committed))
    for start in ("COMPLETE", "COMPLETE_ABORT", "EMPTY"):
        if start == "EMPTY":
            identities.append(bench.init())
        decision = bench.decide_end(identities[-1], committed=False)
        states = [record.state for record in decision.records if isinstance(record, Transaction)]
        assert states == [TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT]
        assert decision.effects == ()
        bench.run(decision)
        assert bench.transaction.producer_epoch == identities[-1].producer_epoch + 1
        assert bench.transaction.started_ms == bench.now_ms
        assert bench.add_error(identities[-1], P0) is ErrorCode.PRODUCER_FENCED
        again = bench.decide_end(identities[-1], committed=False)
        assert again == Decision(decision.response)
        identities.append(ProducerIdentity(bench.transaction.producer_id, bench.transaction.producer_epoch))


def test_a_commit_without_partitions_is_refused(bench: Bench) -> None:
    """Scenario 23."""
    identity = bench.init()
    assert bench.end_error(identity, committed=True) is ErrorCode.INVALID_TXN_STATE
    for committed in (True, False):
        identity = bench.transact(identity, committed=committed)
        assert bench.end_error(identity, committed=True) is ErrorCode.INVALID_TXN_STATE


def test_an_end_of_an_unknown_id_or_of_another_producer_id_is_refused(bench: Bench) -> None:
    """Scenario 23."""
    stranger = ProducerIdentity(7, 0)
    for version in (0, 2):
        decision = bench.decide_end(stranger, committed=True, version=version, transactional_id="unknown")
        assert decision == Decision(EndTxnResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    bench.add(bench.init(), P0)
    for version in (0, 2):
        assert bench.end_error(stranger, committed=True, version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        decision = bench.decide_end(stranger, committed=True, version=version, transactional_id="")
        assert decision == Decision(EndTxnResult(ErrorCode.INVALID_REQUEST))


def test_an_end_under_a_higher_epoch_is_refused(bench: Bench) -> None:
    identity = bench.init()
    bench.add(identity, P0)
    ahead = ProducerIdentity(identity.producer_id, identity.producer_epoch + 1)
    for version in (0, 2):
        for committed in (True, False):
            assert bench.end_error(ahead, committed=committed, version=version) is ErrorCode.PRODUCER_FENCED


@OUTCOMES
def test_when_the_epochs_are_exhausted_the_producer_goes_on_with_a_new_id(bench: Bench, committed: bool) -> None:
    """Scenario 19, KAFKA-18660: the answer carries the new id, the markers the old one at the reserved epoch."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    bench.add(last, P0)
    rotated = bench.end(last, committed=committed)
    assert rotated == (last.producer_id + 1, 0)
    (marker,) = bench.markers
    assert (marker.producer_id, marker.producer_epoch) == (last.producer_id, EPOCH_LAST + 1)
    # It may be ahead of the record, and is not refused for that.
    assert bench.add_error(rotated, P0) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.write_markers()
    bench.add(rotated, P0)


@OUTCOMES
@pytest.mark.parametrize("crash", [False, True])
def test_a_repeated_end_is_recognised_across_the_rotation(bench: Bench, committed: bool, crash: bool) -> None:
    """Scenario 19, KAFKA-18660 and KAFKA-19367."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    bench.add(last, P0)
    rotated = bench.end(last, committed=committed)
    if crash:
        bench.crash()
    assert bench.end_error(last, committed=committed) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.write_markers()
    if crash:
        bench.crash()
    again = EndTxnResult(producer_id=rotated.producer_id, producer_epoch=rotated.producer_epoch)
    assert bench.decide_end(last, committed=committed) == Decision(again)
    assert bench.end_error(last, committed=not committed) is ErrorCode.INVALID_TXN_STATE
    bench.add(rotated, P0)
    assert bench.end_error(last, committed=committed) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_abort_without_partitions_rotates_too(bench: Bench) -> None:
    """Scenarios 19 and 23."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    rotated = bench.end(last, committed=False)
    assert rotated == (last.producer_id + 1, 0)
    assert bench.end(last, committed=False) == rotated


def test_without_a_producer_id_at_hand_the_end_is_to_be_repeated(bench: Bench) -> None:
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    bench.add(last, P0)
    decision = bench.shard.end_txn(ID, *last, True, transaction_version=2, new_producer_id=None, now_ms=bench.now_ms)
    assert decision == Decision(EndTxnResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


def test_at_the_reserved_epoch_only_the_abort_leads_out(bench: Bench) -> None:
    """No client is given it here; a log written by another broker may say otherwise."""
    bench.init()
    beyond = bench.at_epoch(EPOCH_LAST + 1)
    bench.add(beyond, P0)
    assert bench.end_error(beyond, committed=True) is ErrorCode.INVALID_TXN_STATE
    assert bench.end(beyond, committed=False).producer_epoch == 0
    assert bench.markers[0].producer_epoch == EPOCH_LAST + 1


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_of_v1_is_not_taken_for_a_bump(bench: Bench, committed: bool) -> None:
    """A zombie that speaks V2 must not be given the identity of a new instance that speaks V1."""
    zombie = bench.init()
    new = bench.init()
    bench.transact(new, committed=committed, version=0)
    assert new == (zombie.producer_id, zombie.producer_epoch + 1)
    for outcome in (True, False):
        assert bench.end_error(zombie, committed=outcome) is ErrorCode.PRODUCER_FENCED


def test_acknowledged_markers_of_another_epoch_complete_nothing(bench: Bench) -> None:
    """Scenario 33: a late acknowledgement of the transaction before."""
    first = bench.init()
    bench.add(first, P0)
    second = bench.end(first, committed=True)
    (late,) = bench.markers
    bench.write_markers()
    bench.add(second, P0)
    bench.end(second, committed=True)
    decision = bench.shard.markers_written(ID, late.producer_id, late.producer_epoch, now_ms=bench.now_ms)
    assert decision == Decision(None)
    assert bench.shard.markers_written("unknown", 1, 1, now_ms=bench.now_ms) == Decision(None)


def test_markers_that_are_acknowledged_twice_complete_once(bench: Bench) -> None:
    """Scenario 33."""
    identity = bench.init()
    bench.add(identity, P0)
    bench.end(identity, committed=True)
    (marker,) = bench.write_markers()
    decision = bench.shard.markers_written(ID, marker.producer_id, marker.producer_epoch, now_ms=bench.now_ms)
    assert decision == Decision(None)
