"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction is about to write to, added or verified."""

from __future__ import annotations

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.transaction.results import AddPartitionsResult
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import CONSUMER_OFFSETS_TOPIC, ProducerIdentity, TopicPartition
from tests.unit.coordinator.transaction.bench import EPOCH_LAST, ID, P0, P1, Bench, identity_of

OFFSETS = TopicPartition(CONSUMER_OFFSETS_TOPIC, 17)


def test_the_first_partition_begins_the_transaction(bench: Bench) -> None:
    identity = bench.init()
    empty = bench.transaction
    bench.now_ms += 5
    decision = bench.decide_add(identity, P0)
    assert decision == Decision(
        AddPartitionsResult(),
        records=(
            empty._replace(
                state=TxnState.ONGOING,
                partitions=frozenset({P0}),
                started_ms=bench.now_ms,
                updated_ms=bench.now_ms,
                client_transaction_version=2,
            ),
        ),
    )


def test_further_partitions_join_it_and_the_start_stays(bench: Bench) -> None:
    identity = bench.init()
    bench.add(identity, P0)
    begun = bench.transaction
    bench.now_ms += 5
    bench.add(identity, P1, OFFSETS)
    assert bench.transaction == begun._replace(partitions=frozenset({P0, P1, OFFSETS}), updated_ms=bench.now_ms)


def test_partitions_that_are_in_it_already_cost_no_record(bench: Bench) -> None:
    identity = bench.init()
    bench.add(identity, P0, P1)
    assert bench.decide_add(identity, P1, P0) == Decision(AddPartitionsResult())
    assert bench.decide_add(identity) == Decision(AddPartitionsResult())


def test_the_next_transaction_begins_with_its_own_partitions(bench: Bench) -> None:
    identity = bench.transact(bench.init(), committed=True)
    bench.now_ms += 5
    bench.add(identity, P1)
    assert (bench.transaction.partitions, bench.transaction.started_ms) == (frozenset({P1}), bench.now_ms)


def test_adding_nothing_begins_nothing(bench: Bench) -> None:
    assert bench.decide_add(bench.init()) == Decision(AddPartitionsResult())


def test_an_unknown_id_and_another_producer_id_are_refused(bench: Bench) -> None:
    stranger = ProducerIdentity(7, 0)
    assert bench.add_error(stranger, P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bench.init()
    assert bench.add_error(stranger, P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    decision = bench.decide_add(stranger, P0, transactional_id="")
    assert decision == Decision(AddPartitionsResult(ErrorCode.INVALID_REQUEST))


@pytest.mark.parametrize("bump", [-1, 1])
def test_another_epoch_is_fenced(bench: Bench, bump: int) -> None:
    bench.init()
    identity = bench.init()
    other = ProducerIdentity(identity.producer_id, identity.producer_epoch + bump)
    assert bench.add_error(other, P0) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_nothing_is_added_to_a_transaction_that_is_decided(bench: Bench, committed: bool) -> None:
    """Scenario 17."""
    identity = bench.init()
    bench.add(identity, P0)
    after = bench.end(identity, committed=committed)
    for asking in (identity, after):
        assert bench.add_error(asking, P0) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_partition_that_was_added_is_verified(bench: Bench) -> None:
    """Scenario 42: what was not added is named, and nothing changes."""
    identity = bench.init()
    bench.add(identity, P0, version=0)
    decision = bench.decide_add(identity, P0, P1, OFFSETS, verify_only=True)
    refused = {P1: ErrorCode.TRANSACTION_ABORTABLE, OFFSETS: ErrorCode.TRANSACTION_ABORTABLE}
    assert decision == Decision(AddPartitionsResult(errors=refused))


def test_after_the_end_nothing_is_in_the_transaction_any_more(bench: Bench) -> None:
    """Scenario 42: a late write cannot open a transaction that nobody ends."""
    identity = bench.init()
    bench.transact(identity, committed=True, version=0)
    decision = bench.decide_add(identity, P0, verify_only=True)
    assert decision.response.errors == {P0: ErrorCode.TRANSACTION_ABORTABLE}


def test_a_verification_looks_at_the_identity_first(bench: Bench) -> None:
    identity = bench.init()
    bench.add(identity, P0)
    after = bench.end(identity, committed=True)
    errors = {
        asking: bench.decide_add(asking, P0, verify_only=True).response.error
        for asking in (ProducerIdentity(7, 1), identity, after)
    }
    assert errors == {
        ProducerIdentity(7, 1): ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        identity: ErrorCode.PRODUCER_FENCED,
        after: ErrorCode.CONCURRENT_TRANSACTIONS,
    }


def test_only_a_request_that_may_use_a_producer_id_asks_for_one(bench: Bench) -> None:
    def needs() -> tuple[bool, bool]:
        return (
            bench.shard.needs_producer_id(ID, for_init=True),
            bench.shard.needs_producer_id(ID, for_init=False),
        )

    assert needs() == (True, False)
    bench.init()
    assert needs() == (False, False)
    last = bench.at_epoch(EPOCH_LAST)
    assert needs() == (True, True)
    bench.add(last, P0)
    assert needs() == (True, True)
    bench.end(last, committed=True)
    assert needs() == (False, False)
    bench.write_markers()
    assert needs() == (False, False)


def test_a_transaction_beyond_the_limit_begins_when_another_one_has_ended() -> None:
    bench = Bench(TransactionSettings(open_max=2))
    names = ("first", "second", "third")
    first, second, third = (identity_of(bench.run(bench.decide_init(transactional_id=name))) for name in names)
    bench.run(bench.decide_add(first, P0, transactional_id="first"))
    bench.run(bench.decide_add(second, P0, transactional_id="second"))
    assert bench.decide_add(third, P0, transactional_id="third") == Decision(
        AddPartitionsResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    )
    assert bench.decide_add(first, P1, transactional_id="first").response == AddPartitionsResult(), "it is open already"
    bench.run(bench.decide_end(second, committed=True, transactional_id="second"))
    assert bench.decide_add(third, P0, transactional_id="third").response == AddPartitionsResult()
