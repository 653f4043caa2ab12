"""InitProducerId: who owns a transactional id, and what becomes of whoever owned it before."""

from __future__ import annotations

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.transaction.decisions import TransactionDecision
from semel.coordinator.transaction.records import NO_PARTITIONS, Transaction
from semel.coordinator.transaction.results import InitProducerIdResult
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import ProducerIdentity
from tests.unit.coordinator.transaction.bench import EPOCH_LAST, FIRST_PRODUCER_ID, ID, P0, P1, TIMEOUT_MS, Bench


def test_a_new_id_gets_a_producer_id_at_epoch_0(bench: Bench) -> None:
    """Scenario 16."""
    decision = bench.decide_init()
    assert decision == Decision(
        InitProducerIdResult(producer_id=FIRST_PRODUCER_ID, producer_epoch=0),
        records=(
            Transaction(
                transactional_id=ID,
                producer_id=FIRST_PRODUCER_ID,
                producer_epoch=0,
                last_producer_id=FIRST_PRODUCER_ID,
                last_producer_epoch=None,
                next_producer_id=None,
                state=TxnState.EMPTY,
                partitions=NO_PARTITIONS,
                timeout_ms=TIMEOUT_MS,
                started_ms=None,
                updated_ms=bench.now_ms,
                client_transaction_version=0,
            ),
        ),
    )


def test_a_decision_changes_nothing_before_its_records_are_replayed(bench: Bench) -> None:
    """Scenario 24: an append that fails leaves no trace, however often it is tried."""
    bench.decide_init()
    assert len(bench.shard) == 0
    identity = bench.init()
    bench.add(identity, P0)
    before = bench.transaction
    assert bench.decide_init() == bench.decide_init()
    assert bench.decide_add(identity, P1) == bench.decide_add(identity, P1)
    assert bench.decide_end(identity, committed=True) == bench.decide_end(identity, committed=True)
    assert bench.transaction is before


def test_a_failed_append_of_a_fence_does_not_bump_the_epoch_a_second_time(bench: Bench) -> None:
    """Scenario 24."""
    identity = bench.init()
    bench.add(identity, P0)
    for _ in range(3):
        (prepared,) = bench.decide_init().records  # Decided, and the append failed.
    assert isinstance(prepared, Transaction)
    assert prepared.producer_epoch == identity.producer_epoch + 1


@pytest.mark.parametrize("state", [TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT])
def test_a_new_instance_gets_the_next_epoch_and_the_old_one_is_fenced(bench: Bench, state: TxnState) -> None:
    """Scenario 16."""
    old = bench.init()
    if state is not TxnState.EMPTY:
        old = bench.transact(old, committed=state is TxnState.COMPLETE_COMMIT)
    assert bench.transaction.state is state
    new = bench.init()
    assert new == (old.producer_id, old.producer_epoch + 1)
    assert bench.transaction.state is TxnState.EMPTY
    assert bench.add_error(old, P0) is ErrorCode.PRODUCER_FENCED
    assert bench.end_error(old, committed=True) is ErrorCode.PRODUCER_FENCED
    assert bench.end_error(old, committed=False) is ErrorCode.PRODUCER_FENCED
    assert bench.init_error(old) is ErrorCode.PRODUCER_FENCED


def test_a_new_instance_aborts_what_is_open_first(bench: Bench) -> None:
    """Scenario 16: fenced under the next epoch, told CONCURRENT_TRANSACTIONS, granted once the markers are there."""
    old = bench.init()
    bench.add(old, P0, P1)
    assert bench.run(bench.decide_init()) == InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.transaction.state is TxnState.PREPARE_ABORT
    assert bench.transaction.producer_epoch == old.producer_epoch + 1
    (marker,) = bench.markers
    assert (marker.producer_epoch, marker.committed, marker.partitions) == (
        old.producer_epoch + 1,
        False,
        frozenset({P0, P1}),
    )
    assert bench.init_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.write_markers()
    assert bench.init() == (old.producer_id, old.producer_epoch + 2)


def test_an_instance_that_was_taken_over_is_fenced_even_before_the_new_one_is_granted(bench: Bench) -> None:
    """Scenario 16: nobody hears of the epoch that the fence was written with."""
    old = bench.init()
    bench.add(old, P0)
    bench.run(bench.decide_init())
    bench.write_markers()
    assert bench.transaction.state is TxnState.COMPLETE_ABORT
    for committed in (True, False):
        assert bench.end_error(old, committed=committed) is ErrorCode.PRODUCER_FENCED
    assert bench.init_error(old) is ErrorCode.PRODUCER_FENCED
    bench.crash()
    assert bench.end_error(old, committed=False) is ErrorCode.PRODUCER_FENCED


def test_an_old_cluster_fences_what_is_open_with_the_bumped_epoch(old_bench: Bench) -> None:
    """Scenario 16, without transactions V2."""
    old = old_bench.init()
    old_bench.add(old, P0, version=0)
    assert old_bench.run(old_bench.decide_init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert old_bench.transaction.client_transaction_version == 0
    assert old_bench.end_error(old, committed=True, version=0) is ErrorCode.PRODUCER_FENCED
    old_bench.write_markers()
    assert old_bench.init() == (old.producer_id, old.producer_epoch + 2)


@pytest.mark.parametrize("committed", [True, False])
def test_a_decided_transaction_is_waited_for_and_never_reversed(bench: Bench, committed: bool) -> None:
    """Scenario 17."""
    identity = bench.init()
    bench.add(identity, P0)
    after = bench.end(identity, committed=committed)
    for asking in (None, identity, after, ProducerIdentity(7, 7)):
        assert bench.init_error(asking) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.write_markers()
    assert bench.transaction.state is (TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT)
    assert bench.init() == (after.producer_id, after.producer_epoch + 1)


def test_a_producer_that_resumes_has_its_own_epoch_bumped(bench: Bench) -> None:
    """Scenario 18, KIP-360."""
    identity = bench.init()
    resumed = bench.init(identity)
    assert resumed == (identity.producer_id, identity.producer_epoch + 1)
    assert bench.add_error(identity, P0) is ErrorCode.PRODUCER_FENCED
    bench.add(resumed, P0)


@pytest.mark.parametrize("crash", [False, True])
def test_a_repeated_resume_gets_the_same_answer_and_no_second_bump(bench: Bench, crash: bool) -> None:
    """Scenario 18, also across a failover, where Kafka fences the producer."""
    identity = bench.init()
    resumed = bench.init(identity)
    if crash:
        bench.crash()
    for _ in range(3):
        decision = bench.decide_init(identity)
        assert decision == Decision(InitProducerIdResult(producer_id=resumed[0], producer_epoch=resumed[1]))


def test_a_stale_resume_is_fenced(bench: Bench) -> None:
    """Scenario 18."""
    identity = bench.init()
    resumed = bench.init(bench.init(identity))
    assert bench.init_error(identity) is ErrorCode.PRODUCER_FENCED
    assert bench.init_error(ProducerIdentity(identity.producer_id, 99)) is ErrorCode.PRODUCER_FENCED
    assert bench.init_error(ProducerIdentity(7, resumed.producer_epoch)) is ErrorCode.PRODUCER_FENCED


def test_a_resume_after_another_instance_took_over_is_fenced(bench: Bench) -> None:
    """Scenario 18: the last epoch of one owner is not that of the next."""
    identity = bench.init()
    bench.init()
    assert bench.init_error(identity) is ErrorCode.PRODUCER_FENCED


def test_a_delayed_resume_does_not_abort_what_its_owner_has_begun_since(bench: Bench) -> None:
    """Scenario 18: Kafka aborts it."""
    identity = bench.init()
    resumed = bench.init(identity)
    bench.add(resumed, P0)
    assert bench.init_error(identity) is ErrorCode.PRODUCER_FENCED
    assert bench.transaction.state is TxnState.ONGOING


@pytest.mark.parametrize("version", [1, 2])
def test_a_resume_in_the_middle_of_its_own_transaction_aborts_it_and_goes_on(version: int) -> None:
    """Scenario 18."""
    bench = Bench(TransactionSettings(transaction_version=version))
    identity = bench.init()
    bench.add(identity, P0)
    assert bench.run(bench.decide_init(identity)).error is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.write_markers()
    resumed = bench.init(identity)
    assert resumed == (identity.producer_id, identity.producer_epoch + 1)
    bench.add(resumed, P0)


def test_an_id_that_was_forgotten_starts_again_whatever_the_producer_believes(bench: Bench) -> None:
    """Scenario 28: recovery by InitProducerId."""
    assert bench.init(ProducerIdentity(77, 12)) == (FIRST_PRODUCER_ID, 0)


def test_the_last_epoch_is_reserved_for_fencing(bench: Bench) -> None:
    """Scenario 19."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    assert bench.init() == (last.producer_id + 1, 0)


def test_a_resume_at_the_last_epoch_gets_a_new_producer_id_and_again_the_same(bench: Bench) -> None:
    """Scenarios 18 and 19: repeated more than once, and across a failover."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    rotated = bench.init(last)
    assert rotated == (last.producer_id + 1, 0)
    assert bench.init(last) == rotated
    bench.crash()
    assert bench.init(last) == rotated
    bench.add(rotated, P0)
    assert bench.init_error(last) is ErrorCode.PRODUCER_FENCED


def test_a_repeated_resume_that_used_up_the_epochs_is_known_as_one(bench: Bench) -> None:
    """Scenario 19: Kafka fails with an unexpected error."""
    bench.init()
    before = bench.at_epoch(EPOCH_LAST - 1)
    last = bench.init(before)
    assert last.producer_epoch == EPOCH_LAST
    assert bench.init(before) == last


def test_a_takeover_at_the_last_epoch_does_not_let_the_old_instance_back_in(bench: Bench) -> None:
    """Scenario 19."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    bench.init()
    assert bench.init_error(last) is ErrorCode.PRODUCER_FENCED
    assert bench.end_error(last, committed=False) is ErrorCode.PRODUCER_FENCED
    assert bench.end_error(last, committed=False, version=0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.add_error(last) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_fencing_what_is_open_at_the_last_epoch_uses_the_reserved_one(bench: Bench) -> None:
    """Scenario 19: the markers carry it, and no client ever does."""
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    bench.add(last, P0)
    assert bench.run(bench.decide_init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.markers[0].producer_epoch == EPOCH_LAST + 1
    bench.write_markers()
    assert bench.transaction.producer_epoch == 0
    assert bench.init() == (last.producer_id + 1, 1)


def test_an_old_cluster_rotates_with_the_request_that_follows_the_fence(old_bench: Bench) -> None:
    """Scenario 19, without transactions V2."""
    old_bench.init()
    last = old_bench.at_epoch(EPOCH_LAST)
    old_bench.add(last, P0, version=0)
    assert old_bench.run(old_bench.decide_init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
    old_bench.write_markers()
    assert old_bench.transaction.producer_epoch == EPOCH_LAST + 1
    assert old_bench.init().producer_epoch == 0
    assert old_bench.transaction.producer_id != last.producer_id


def test_on_an_old_cluster_a_producer_that_starts_again_is_not_given_the_reserved_epoch(old_bench: Bench) -> None:
    """Scenario 19: its own abort has used the reserved epoch, which could not be fenced if it got that one."""
    old_bench.init()
    last = old_bench.at_epoch(EPOCH_LAST)
    old_bench.add(last, P0, version=0)
    assert old_bench.run(old_bench.decide_init(last)).error is ErrorCode.CONCURRENT_TRANSACTIONS
    old_bench.write_markers()
    assert old_bench.transaction.producer_epoch == EPOCH_LAST + 1
    rotated = old_bench.init(last)
    assert rotated.producer_id != last.producer_id
    assert rotated.producer_epoch == 0
    assert old_bench.init(last) == rotated, "its answer was lost"
    old_bench.crash()
    assert old_bench.init(last) == rotated, "and the coordinator has moved"
    old_bench.add(rotated, P0, version=0)
    assert old_bench.init_error(last) is ErrorCode.PRODUCER_FENCED


def test_two_inits_in_any_order_never_get_the_same_identity(bench: Bench) -> None:
    """Scenario 25: each is decided on what the one before has recorded."""
    bench.init()
    bench.at_epoch(EPOCH_LAST - 3)
    identities = [bench.init() for _ in range(8)]
    assert len(set(identities)) == 8
    assert max(identity.producer_epoch for identity in identities) == EPOCH_LAST


def test_without_a_producer_id_at_hand_the_request_is_to_be_repeated(bench: Bench) -> None:
    def init() -> TransactionDecision[InitProducerIdResult]:
        return bench.shard.init_producer_id(
            ID, TIMEOUT_MS, None, None, new_producer_id=None, api_version=5, now_ms=bench.now_ms
        )

    refused: TransactionDecision[InitProducerIdResult] = Decision(
        InitProducerIdResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    )
    assert init() == refused
    bench.init()
    last = bench.at_epoch(EPOCH_LAST)
    assert init() == refused
    bench.add(last, P0)
    assert init() == refused


@pytest.mark.parametrize("timeout_ms", [900_001, 0, -1])
def test_a_timeout_beyond_the_limit_is_refused(bench: Bench, timeout_ms: int) -> None:
    """Scenario 29."""
    decision = bench.decide_init(timeout_ms=timeout_ms)
    assert decision == Decision(InitProducerIdResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    bench.init(timeout_ms=900_000)


def test_an_empty_transactional_id_is_refused(bench: Bench) -> None:
    assert bench.decide_init(transactional_id="") == Decision(InitProducerIdResult(ErrorCode.INVALID_REQUEST))


@pytest.mark.parametrize("identity", [(None, 3), (1000, None)])
def test_half_an_identity_is_refused(bench: Bench, identity: tuple[int | None, int | None]) -> None:
    decision = bench.shard.init_producer_id(
        ID, TIMEOUT_MS, *identity, new_producer_id=1, api_version=5, now_ms=bench.now_ms
    )
    assert decision == Decision(InitProducerIdResult(ErrorCode.INVALID_REQUEST))


@pytest.mark.parametrize(
    ("api_version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
def test_older_requests_get_the_older_error(bench: Bench, api_version: int, error: ErrorCode) -> None:
    identity = bench.init()
    bench.init()
    assert bench.init_error(identity, api_version=api_version) is error


def test_a_new_timeout_holds_from_the_next_transaction_on(bench: Bench) -> None:
    bench.init()
    before = bench.transaction
    bench.init(timeout_ms=5_000)
    assert bench.transaction == before._replace(
        timeout_ms=5_000, producer_epoch=before.producer_epoch + 1, updated_ms=bench.now_ms
    )
