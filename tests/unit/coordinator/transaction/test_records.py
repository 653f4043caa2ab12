"""The records of ``__transaction_state``: Kafka's bytes, and nothing lost between memory and log."""

from __future__ import annotations

import logging

import pytest

from semel.coordinator.transaction.records import (
    EPOCH_MAX,
    NO_PARTITIONS,
    Tombstone,
    Transaction,
    TransactionRecord,
    decode,
    encode,
)
from semel.coordinator.transaction.states import TxnState
from semel.errors import DecodeError
from semel.types import TopicPartition

NOW_MS = 1_700_000_000_000
KEY = bytes.fromhex("000000087061796d656e7473")
EMPTY = Transaction(
    transactional_id="payments",
    producer_id=1000,
    producer_epoch=0,
    last_producer_id=1000,
    last_producer_epoch=None,
    next_producer_id=None,
    state=TxnState.EMPTY,
    partitions=NO_PARTITIONS,
    timeout_ms=60_000,
    started_ms=None,
    updated_ms=NOW_MS,
    client_transaction_version=0,
)
ONGOING = EMPTY._replace(
    producer_epoch=3,
    state=TxnState.ONGOING,
    partitions=frozenset({TopicPartition("orders", 1), TopicPartition("audit", 3), TopicPartition("orders", 0)}),
    started_ms=NOW_MS,
    updated_ms=NOW_MS + 5,
    client_transaction_version=2,
)
PREPARED = ONGOING._replace(
    producer_epoch=EPOCH_MAX,
    last_producer_epoch=EPOCH_MAX - 1,
    next_producer_id=2000,
    state=TxnState.PREPARE_COMMIT,
    updated_ms=NOW_MS + 9,
)
COMPLETE = PREPARED._replace(
    producer_id=2000,
    producer_epoch=0,
    next_producer_id=None,
    state=TxnState.COMPLETE_COMMIT,
    partitions=NO_PARTITIONS,
    updated_ms=NOW_MS + 10,
)


@pytest.mark.parametrize(
    ("record", "transaction_version", "value"),
    [
        (EMPTY, 0, "000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"),
        (
            ONGOING._replace(client_transaction_version=0),
            0,
            (
                "000000000000000003e800030000ea60010000000200056175646974000000010000000300066f726465727300000002"
                "00000000000000010000018bcfe568050000018bcfe56800"
            ),
        ),
        (EMPTY, 1, "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff01000800000000000003e8"),
        (
            ONGOING,
            2,
            (
                "000100000000000003e800030000ea600103066175646974020000000300076f7264657273030000000000000001000000"
                "018bcfe568050000018bcfe5680002000800000000000003e802020002"
            ),
        ),
        (
            PREPARED,
            2,
            (
                "000100000000000003e87fff0000ea600203066175646974020000000300076f7264657273030000000000000001000000"
                "018bcfe568090000018bcfe5680003000800000000000003e8010800000000000007d002020002"
            ),
        ),
        (
            COMPLETE,
            2,
            "000100000000000007d000000000ea6004010000018bcfe5680a0000018bcfe5680002000800000000000003e802020002",
        ),
    ],
)
def test_the_bytes_are_those_that_kafka_writes(record: Transaction, transaction_version: int, value: str) -> None:
    """They were written by Kafka 4.3's own ``TransactionLog``."""
    assert encode(record, transaction_version=transaction_version) == (KEY, bytes.fromhex(value))


@pytest.mark.parametrize(
    "record",
    [
        EMPTY,
        ONGOING,
        PREPARED,
        COMPLETE,
        EMPTY._replace(last_producer_epoch=0, producer_epoch=1),
        ONGOING._replace(last_producer_epoch=2),
        PREPARED._replace(last_producer_epoch=None),
        COMPLETE._replace(last_producer_epoch=None),
        COMPLETE._replace(client_transaction_version=0, last_producer_epoch=7),
        COMPLETE._replace(producer_id=1000, producer_epoch=9, last_producer_epoch=8),
        COMPLETE._replace(producer_id=1000, producer_epoch=9, last_producer_epoch=9),
        Tombstone("payments"),
        Tombstone("grüße, 世界"),
    ],
)
def test_what_is_written_is_what_is_read(record: TransactionRecord) -> None:
    key, value = encode(record)
    assert decode(key, value) == record
    assert decode(memoryview(key), None if value is None else memoryview(value)) == record


def test_the_last_epoch_is_written_only_where_kafkas_fields_do_not_tell_it() -> None:
    usual, told = (encode(COMPLETE._replace(last_producer_epoch=epoch))[1] for epoch in (EPOCH_MAX - 1, None))
    assert usual is not None
    assert told is not None
    assert len(told) == len(usual) + 5


def test_the_oldest_format_keeps_what_it_has_room_for() -> None:
    """Scenario 18: at ``transaction.version`` 0 the last identity is lost, in Kafka as here."""
    written = ONGOING._replace(client_transaction_version=0, last_producer_epoch=2)
    assert decode(*encode(written, transaction_version=0)) == written._replace(
        last_producer_id=None, last_producer_epoch=None
    )


def test_what_v2_decided_is_never_written_in_a_format_without_room_for_it() -> None:
    assert decode(*encode(PREPARED, transaction_version=0)) == PREPARED


def test_a_record_of_an_unknown_kind_is_skipped_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Scenario 37."""
    caplog.set_level(logging.WARNING)
    assert decode(b"\0\1later", b"\0\1value") is None
    assert decode(KEY, b"\0\2value") is None
    assert decode(KEY, b"\xff\xffvalue") is None
    assert [record.getMessage() for record in caplog.records] == [
        "a record of __transaction_state is skipped: key version 1 is not known, only 0 is",
        "a record of __transaction_state for 'payments' is skipped: value version 2 is not known, only 0 to 1 are",
        "a record of __transaction_state for 'payments' is skipped: value version -1 is not known, only 0 to 1 are",
    ]


@pytest.mark.parametrize("status", [6, 7, 8, 127])
def test_a_status_that_nobody_writes_is_an_error(status: int) -> None:
    """Scenario 37: no state is invented."""
    _, value = encode(EMPTY)
    assert value is not None
    with pytest.raises(DecodeError, match=rf"'payments' has status {status}"):
        decode(KEY, value[:16] + bytes([status]) + value[17:])


def test_partitions_of_an_empty_transaction_are_not_read() -> None:
    """Scenario 37: nothing is invented; fuzzing found that they were, and were gone after the next write."""
    _, value = encode(PREPARED)
    assert value is not None
    decoded = decode(KEY, value[:16] + bytes([TxnState.EMPTY]) + value[17:])
    assert isinstance(decoded, Transaction)
    assert decoded.state is TxnState.EMPTY
    assert decoded.partitions == frozenset()


@pytest.mark.parametrize("record", [EMPTY, PREPARED], ids=["empty", "prepared"])
@pytest.mark.parametrize("transaction_version", [0, 2])
def test_bytes_that_end_early_are_an_error(record: Transaction, transaction_version: int) -> None:
    """Scenario 37."""
    key, value = encode(record, transaction_version=transaction_version)
    assert value is not None
    for length in range(len(value)):
        with pytest.raises(DecodeError):
            decode(key, value[:length])
    for length in range(len(key)):
        with pytest.raises(DecodeError):
            decode(key[:length], value)


def test_a_record_without_a_key_is_an_error() -> None:
    with pytest.raises(DecodeError, match="without a key"):
        decode(None, b"")


def test_a_record_of_kafka_with_fields_of_a_later_protocol_is_read() -> None:
    """KIP-939's next epoch (tag 3) and a tag that nobody has given out yet."""
    _, value = encode(COMPLETE)
    assert value is not None
    count_at = len(value) - len(bytes.fromhex("02000800000000000003e802020002"))
    extended = value[:count_at] + b"\x04" + value[count_at + 1 :] + b"\x03\x02\x00\x07" + b"\x63\x01x"
    assert decode(KEY, extended) == COMPLETE
