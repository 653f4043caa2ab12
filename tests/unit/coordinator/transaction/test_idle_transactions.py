"""Ids that rest: kept as they stand in the log, and no different for it from those that do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.coordinator.transaction.listing import ListFilters
from semel.coordinator.transaction.log_messages import TransactionLogValue
from semel.coordinator.transaction.records import (
    NO_PARTITIONS,
    EncodedIdleTransaction,
    Tombstone,
    Transaction,
    decode,
    decode_to_load,
    encode,
)
from semel.coordinator.transaction.states import IDLE, TxnState
from semel.types import INT32_MAX, INT64_MAX, TopicPartition
from semel.wire import codec
from tests.unit.coordinator.transaction.bench import ID, P0, Bench

EPOCHS = st.none() | st.integers(0, 2**15 - 1)
IDS = st.integers(0, INT64_MAX)
WRITTEN = sorted(set(TxnState) - {TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE})


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    producer_id = draw(IDS)
    state = draw(st.sampled_from(WRITTEN))
    places = st.frozensets(st.builds(TopicPartition, st.text(min_size=1, max_size=3), st.integers(0, 9)), max_size=3)
    return Transaction(
        transactional_id=draw(st.text(max_size=8)),
        producer_id=producer_id,
        producer_epoch=draw(st.integers(0, 2**15 - 1)),
        last_producer_id=draw(st.none() | st.just(producer_id) | IDS),
        last_producer_epoch=draw(EPOCHS),
        next_producer_id=draw(st.none() | IDS),
        state=state,
        partitions=NO_PARTITIONS if state in IDLE else draw(places),
        timeout_ms=draw(st.integers(0, INT32_MAX)),
        started_ms=draw(st.none() | IDS),
        updated_ms=draw(IDS),
        client_transaction_version=draw(st.sampled_from([0, 2])),
    )


@given(transactions())
def test_the_usual_value_is_packed_as_its_schema_says(transaction: Transaction) -> None:
    _, value = encode(transaction)
    assert value is not None
    thorough = codec.decode(TransactionLogValue, value, 1, 2)
    assert value == b"\0\1" + codec.encode(thorough, 1)
    assert decode(*encode(transaction)) == transaction


@given(transactions())
def test_what_rests_is_read_as_what_does_not(transaction: Transaction) -> None:
    key, value = encode(transaction)
    loaded = decode_to_load(key, value)
    if isinstance(loaded, EncodedIdleTransaction):
        assert transaction.state in IDLE
        assert encode(loaded) == (key, value)
        loaded = loaded.transaction()
    assert loaded == transaction


def test_an_id_that_has_committed_rests_and_one_with_something_open_does_not() -> None:
    bench = Bench()
    identity = bench.init()
    bench.add(identity, P0)
    assert isinstance(decode_to_load(*bench.log[-1]), Transaction)
    bench.end(identity, committed=True)
    assert isinstance(decode_to_load(*bench.log[-1]), Transaction)
    bench.write_markers()
    assert isinstance(decode_to_load(*bench.log[-1]), EncodedIdleTransaction)
    assert isinstance(decode_to_load(bench.log[-1][0], None), Tombstone)


def test_a_shard_whose_ids_rest_says_the_same_as_one_whose_ids_do_not() -> None:
    lively = Bench()
    for number in range(5):
        lively.run(lively.decide_init(transactional_id=f"id-{number}"))
    identity = lively.init()
    lively.add(identity, P0)
    lively.end(identity, committed=True)
    lively.write_markers()
    rested = Bench()
    for key, value in lively.log:
        record = decode_to_load(key, value)
        assert record is not None
        rested.shard.replay(record)
    rested.now_ms = lively.now_ms
    for shard in (lively.shard, rested.shard):
        assert len(shard) == 6
    for transactional_id in (ID, "id-3"):
        assert rested.shard.get(transactional_id) == lively.shard.get(transactional_id)
        assert rested.shard.describe(transactional_id) == lively.shard.describe(transactional_id)
        assert rested.decide_init(transactional_id=transactional_id) == lively.decide_init(
            transactional_id=transactional_id
        )
    assert rested.shard.get("unknown") is None
    for filters in (ListFilters(), ListFilters(producer_ids=frozenset({identity.producer_id, 1003, -1, 2**70}))):
        listed = rested.shard.list(filters, now_ms=0)
        assert listed == lively.shard.list(filters, now_ms=0)
        assert len(listed.transactions) == (2 if filters.producer_ids else 6)
    far_ms = lively.now_ms + 10**12
    assert rested.shard.expire(far_ms) == lively.shard.expire(far_ms)
    assert list(rested.shard.open_transactions()) == []


def test_a_record_that_rests_takes_the_place_of_an_open_one() -> None:
    """The last record of an id is what counts, in whatever form it is kept."""
    bench = Bench()
    identity = bench.init()
    at_rest = decode_to_load(*bench.log[-1])
    bench.add(identity, P0)
    assert len(list(bench.shard.open_transactions())) == 1
    assert isinstance(at_rest, EncodedIdleTransaction)
    bench.shard.replay(at_rest)
    assert list(bench.shard.open_transactions()) == []
    assert bench.shard.get(ID) == at_rest.transaction()


@given(transactions(), st.booleans())
def test_a_producer_id_is_found_in_what_rests_as_in_what_does_not(transaction: Transaction, rests: bool) -> None:
    """Also the one of the record before, for the brokers that ask which transaction a producer id belongs to."""
    bench = Bench()
    record = decode_to_load(*encode(transaction)) if rests else transaction
    assert record is not None
    bench.shard.replay(record)
    for producer_id, with_last, found in (
        (transaction.producer_id, False, True),
        (transaction.producer_id, True, True),
        (transaction.last_producer_id, True, True),
        (transaction.last_producer_id, False, transaction.last_producer_id == transaction.producer_id),
    ):
        if producer_id is not None:
            filters = ListFilters(producer_ids=frozenset({producer_id}), with_last_producer_id=with_last)
            assert bool(bench.shard.list(filters, now_ms=0).transactions) == found
