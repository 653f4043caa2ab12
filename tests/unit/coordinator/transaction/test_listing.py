"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

import pytest

from semel.coordinator.transaction.listing import ListFilters
from semel.coordinator.transaction.results import ListedTransaction, TransactionDescription, TransactionListing
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.types import ProducerIdentity
from tests.unit.coordinator.transaction.bench import FIRST_PRODUCER_ID, ID, P0, P1, TIMEOUT_MS, Bench

IN_STATE = {
    "audit": TxnState.EMPTY,
    "bills": TxnState.ONGOING,
    "card-1": TxnState.PREPARE_COMMIT,
    "card-2": TxnState.PREPARE_ABORT,
    "done-1": TxnState.COMPLETE_COMMIT,
    "done-2": TxnState.COMPLETE_ABORT,
}


@pytest.fixture
def busy() -> Bench:
    """One id in every state there is, begun a minute apart."""
    bench = Bench()
    for number, (transactional_id, state) in enumerate(IN_STATE.items()):
        bench.now_ms += 60_000
        bench.run(bench.decide_init(transactional_id=transactional_id))
        identity = ProducerIdentity(FIRST_PRODUCER_ID + number, 0)
        if state is TxnState.EMPTY:
            continue
        bench.run(bench.decide_add(identity, P0, transactional_id=transactional_id))
        if state is TxnState.ONGOING:
            continue
        committed = state in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)
        markers, bench.markers = bench.markers, []
        bench.run(bench.decide_end(identity, committed=committed, transactional_id=transactional_id))
        if state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
            bench.write_markers()
        bench.markers += markers
    return bench


def listed(bench: Bench, filters: ListFilters) -> list[str]:
    listing = bench.shard.list(filters, now_ms=bench.now_ms)
    assert listing.error is ErrorCode.NONE
    return sorted(transaction.transactional_id for transaction in listing.transactions)


def test_without_filters_everything_is_listed(busy: Bench) -> None:
    assert busy.shard.list(ListFilters(), now_ms=busy.now_ms) == TransactionListing(
        transactions=tuple(
            ListedTransaction(transactional_id, FIRST_PRODUCER_ID + number, state)
            for number, (transactional_id, state) in enumerate(IN_STATE.items())
        )
    )


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (ListFilters(states=("Ongoing",)), ["bills"]),
        (ListFilters(states=("PrepareCommit", "PrepareAbort")), ["card-1", "card-2"]),
        (ListFilters(states=("Empty", "Ongoing")), ["audit", "bills"]),
        (ListFilters(states=("CompleteCommit", "CompleteAbort")), ["done-1", "done-2"]),
        (ListFilters(states=("Dead",)), []),
        (ListFilters(producer_ids=frozenset({FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 2, 7})), ["audit", "card-1"]),
        (ListFilters(pattern="card-."), ["card-1", "card-2"]),
        (ListFilters(pattern=".*-1"), ["card-1", "done-1"]),
        (ListFilters(pattern="card"), []),
        (ListFilters(pattern=""), sorted(IN_STATE)),
        (ListFilters(duration_ms=0), ["bills", "card-1", "card-2"]),
        (ListFilters(duration_ms=120_000), ["bills", "card-1"]),
        (ListFilters(duration_ms=180_000), ["bills"]),
        (ListFilters(duration_ms=240_000), []),
        (ListFilters(states=("Ongoing", "Empty"), pattern="b.*", duration_ms=1), ["bills"]),
        (ListFilters(states=("Ongoing",), producer_ids=frozenset({FIRST_PRODUCER_ID})), []),
    ],
)
def test_every_filter_must_hold(busy: Bench, filters: ListFilters, expected: list[str]) -> None:
    assert listed(busy, filters) == expected


def test_names_that_are_no_states_are_reported_and_match_nothing(busy: Bench) -> None:
    listing = busy.shard.list(ListFilters(states=("Ongoing", "Open", "ongoing", "Open")), now_ms=busy.now_ms)
    assert listing.unknown_states == ("Open", "ongoing")
    assert [transaction.transactional_id for transaction in listing.transactions] == ["bills"]
    assert busy.shard.list(ListFilters(states=("Open",)), now_ms=busy.now_ms) == TransactionListing(
        unknown_states=("Open",)
    )


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"(a)\1", "(?=a)a", "(?<!b)a"])
def test_what_is_no_regular_expression_is_refused(busy: Bench, pattern: str) -> None:
    listing = busy.shard.list(ListFilters(pattern=pattern), now_ms=busy.now_ms)
    assert listing == TransactionListing(ErrorCode.INVALID_REGULAR_EXPRESSION)


def test_a_transaction_is_described_with_its_partitions(bench: Bench) -> None:
    identity = bench.init()
    bench.add(identity, P1, P0)
    assert bench.shard.describe(ID) == TransactionDescription(
        ID,
        state=TxnState.ONGOING,
        timeout_ms=TIMEOUT_MS,
        started_ms=bench.now_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        partitions=(P0, P1),
    )


def test_what_is_not_known_cannot_be_described(bench: Bench) -> None:
    assert bench.shard.describe("x") == TransactionDescription("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert bench.shard.describe("") == TransactionDescription("", ErrorCode.INVALID_REQUEST)


def test_open_transactions_are_the_undecided_and_those_that_owe_markers(busy: Bench) -> None:
    assert [transaction.transactional_id for transaction in busy.shard.open_transactions()] == [
        "bills",
        "card-1",
        "card-2",
    ]
