"""Arbitrary batch headers with a true checksum, by every way into a log.

Both readers of the rule (the quick yes and the full check) agree, the log end only ever moves forward and by the number
of records, and after a kill the log loads with the same content.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import ErrorCode, KafkaError
from semel.log.admission import admit
from semel.log.config import LogConfig
from semel.log.outcomes import Appended
from semel.log.partition_log import PartitionLog
from semel.testing.virtual.disk import VirtualDisk
from semel.wire.crc import crc32c
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    BatchHeader,
    is_walkable,
    iterate_headers,
    iterate_records,
)
from semel.wire.records.header import HEADER
from tests.logs import NOW_MS, ORDERS, batch, open_log, read_all

# Every field, with the bits of its type. The length and the magic decide where the rest stands; both are here too.
BITS = {
    "base_offset": 64,
    "batch_length": 32,
    "partition_leader_epoch": 32,
    "magic": 8,
    "attributes": 16,
    "last_offset_delta": 32,
    "base_timestamp": 64,
    "max_timestamp": 64,
    "producer_id": 64,
    "producer_epoch": 16,
    "base_sequence": 32,
    "record_count": 32,
}


def _numbers(bits: int) -> st.SearchStrategy[int]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    edges = st.sampled_from([least, least + 1, -30, -2, -1, 0, 1, 2, 3, 4, 0x10 % most, 0x20 % most, most - 1, most])
    return edges | st.integers(-4, 70) | st.integers(least, most)


CHANGE = st.sampled_from(sorted(BITS)).flatmap(lambda name: st.tuples(st.just(name), _numbers(BITS[name])))
COUNTS = _numbers(32).map(lambda count: {"record_count": count, "last_offset_delta": max(count - 1, -(2**31))})
PRODUCER = st.fixed_dictionaries(
    {"producer_id": _numbers(64), "producer_epoch": _numbers(16), "base_sequence": _numbers(32)}
)
CHANGES = st.lists(CHANGE, max_size=3).map(dict) | COUNTS | PRODUCER | st.just({})
BATCH = st.tuples(st.integers(1, 4), CHANGES)


def changed(count: int, changes: dict[str, int]) -> memoryview:
    """A sound batch with some header fields replaced, and a checksum that is true for what it says now."""
    records = batch(*["value"] * count)
    header = BatchHeader.read(records)._replace(**changes)
    HEADER.pack_into(records, 0, *header)
    struct.pack_into(">I", records, CRC_POSITION, crc32c(records[ATTRIBUTES_POSITION:]))
    return records


def outcome(log: PartitionLog, records: memoryview) -> tuple[ErrorCode, str] | Appended:
    try:
        return log.append(records, now_ms=NOW_MS)
    except KafkaError as error:
        return error.code, error.message


def by_the_full_check(config: LogConfig, records: memoryview) -> tuple[ErrorCode, str] | None:
    try:
        admit(records, config=config, now_ms=NOW_MS, topic_partition=ORDERS)
    except KafkaError as error:
        return error.code, error.message
    return None


@settings(deadline=None, max_examples=300)
@given(batches=st.lists(BATCH, min_size=1, max_size=8))
def test_whatever_a_header_says_the_log_end_only_moves_forward_and_a_start_finds_the_same_log(
    batches: list[tuple[int, dict[str, int]]],
) -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    for count, changes in batches:
        records = changed(count, changes)
        expected = by_the_full_check(log.config, memoryview(bytearray(records)))
        end_offset, producers = log.log_end_offset, log.producers.describe()
        refused = outcome(log, records)
        if expected is not None:
            assert refused == expected
            assert expected[0] is not ErrorCode.UNKNOWN_SERVER_ERROR
        if isinstance(refused, Appended) and not refused.duplicate:
            assert log.log_end_offset == end_offset + count
        else:
            assert (log.log_end_offset, log.producers.describe()) == (end_offset, producers)
    data, end_offset = read_all(log), log.log_end_offset
    assert sum(header.record_count for _, header in iterate_headers(data)) == end_offset
    for position, _ in iterate_headers(data):
        list(iterate_records(data, position))
    disk.kill()
    again = open_log(disk)
    assert (again.log_end_offset, read_all(again)) == (end_offset, data)


@settings(deadline=None, max_examples=150)
@given(count=st.integers(1, 4), changes=CHANGES)
def test_topics_that_look_into_batches_take_and_refuse_the_same_headers(count: int, changes: dict[str, int]) -> None:
    """The quick yes is not asked where a setting wants a look inside; the answers differ in nothing."""
    plain = LogConfig()
    other = replace(plain, message_timestamp_before_max_ms=2**63 - 2)
    answers = []
    for config in (plain, other):
        log = open_log(VirtualDisk(), config=config)
        answers.append((outcome(log, changed(count, changes)), log.log_end_offset))
    assert answers[0] == answers[1]


@settings(deadline=None, max_examples=300)
@given(batches=st.lists(BATCH, min_size=1, max_size=5), start=st.sampled_from([0, 1, 2**62, 2**63 - 3, 2**63 - 2]))
def test_a_copied_batch_with_any_header_moves_the_log_end_forward_or_is_refused_by_name(
    batches: list[tuple[int, dict[str, int]]], start: int
) -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    log.log_end_offset = start
    log.roll(NOW_MS)
    for count, changes in batches:
        end_offset = log.log_end_offset
        changes.pop("batch_length", None)  # The journal's own checksum covers it.
        copied = changed(count, {"base_offset": end_offset, "partition_leader_epoch": 3, **changes})
        header = BatchHeader.read(copied)
        error = _copied(log, copied)
        if error is not None:
            assert (error.code, log.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, end_offset)
            assert str(ORDERS) in error.message
        elif header.base_offset >= end_offset:
            assert is_walkable(header)
            assert log.log_end_offset == header.next_offset < 2**63
        else:
            assert log.log_end_offset == end_offset


def _copied(log: PartitionLog, copied: memoryview) -> KafkaError | None:
    try:
        log.append_copied(copied, now_ms=NOW_MS)
    except KafkaError as error:
        return error
    return None


def test_the_headers_of_the_issue_are_refused_as_kafka_refuses_them() -> None:
    cases: list[tuple[dict[str, int], ErrorCode]] = [
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": -30, "last_offset_delta": -31}, ErrorCode.INVALID_RECORD),
        ({"record_count": 2, "last_offset_delta": 0}, ErrorCode.INVALID_RECORD),
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x40}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x10}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"producer_id": -2}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "producer_epoch": 0, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "producer_epoch": -1, "base_sequence": 0}, ErrorCode.INVALID_RECORD),
        ({"base_timestamp": -2}, ErrorCode.INVALID_TIMESTAMP),
        ({"max_timestamp": -2}, ErrorCode.INVALID_TIMESTAMP),
    ]
    for changes, code in cases:
        log = open_log(VirtualDisk())
        refused = outcome(log, changed(1, changes))
        assert (refused[0], log.log_end_offset) == (code, 0), changes


def test_what_producers_really_send_is_taken() -> None:
    """Without a producer id some clients write 0 for epoch and sequence; some set a leader epoch; none has to."""
    cases: list[dict[str, Any]] = [
        {},
        {"producer_epoch": -1, "base_sequence": 0},
        {"producer_epoch": 0, "base_sequence": 0},
        {"partition_leader_epoch": 7},
        {"max_timestamp": -1, "base_timestamp": -1},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 2**63 - 1, "producer_epoch": 2**15 - 1, "base_sequence": 0},
    ]
    for changes in cases:
        log = open_log(VirtualDisk())
        assert isinstance(outcome(log, changed(2, changes)), Appended), changes
        assert log.log_end_offset == 2
