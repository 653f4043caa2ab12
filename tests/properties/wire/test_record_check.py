"""``RecordCheck`` takes exactly what ``RecordBlock`` reads to its end with offsets from 0 without gaps.

The reader goes from record to record and builds each; the check passes over runs by their columns. They share nothing
but the reading of unusual integers, so a batch that one takes and the other does not is a mistake of one of them.
"""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.types import INT64_MAX
from semel.wire.records import (
    HEADER_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    RECORD_COUNT_POSITION,
    Record,
    RecordBlock,
    build_batch,
)
from semel.wire.records.checking import HEADERS_MAX, KEYLESS_NAMED_MAX, BadRecord, RecordCheck, is_sound_single

TIME = 1_750_000_000_000

# A group of records that look alike: how many, the sizes of key and value, headers, and how fast time goes.
GROUP = st.tuples(
    st.integers(1, 90),
    st.none() | st.integers(0, 70),
    st.none() | st.integers(0, 200),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
    st.sampled_from([0, 0, 1, 3, 200, -40, 2**40]),
)
GROUPS = st.lists(GROUP, min_size=1, max_size=5)


def block_of(groups: list[tuple[int, int | None, int | None, tuple[tuple[str, bytes | None], ...], int]]) -> bytearray:
    records: list[Record] = []
    for count, key_size, value_size, headers, step in groups:
        key = None if key_size is None else b"k" * key_size
        value = None if value_size is None else b"\x01" * value_size
        for _ in range(count):
            number = len(records)
            records.append(Record(number, TIME + number * step, key, value, headers))
    return bytearray(build_batch(records)[HEADER_SIZE:])


def read_by_record_block(block: bytes | bytearray, count: int, base_timestamp: int = TIME) -> list[Record] | None:
    batch = bytearray(build_batch([Record(0, base_timestamp)])[:HEADER_SIZE]) + block
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, LAST_OFFSET_DELTA_POSITION, count - 1)
    struct.pack_into(">i", batch, RECORD_COUNT_POSITION, count)
    records: list[Record] = []
    try:
        reader = RecordBlock(batch)
        while found := reader.read(100):
            records += found
    except DecodeError:
        return None
    return records if [record.offset for record in records] == list(range(count)) else None


def passes(
    block: bytes | bytearray,
    count: int,
    effort: int = 10**9,
    base_timestamp: int | None = None,
    limit: int | None = None,
) -> RecordCheck | None:
    check = RecordCheck(bytes(block), count, base_timestamp, limit)
    try:
        while not check.advance(effort):
            pass
    except DecodeError:
        return None
    return check


@settings(deadline=None, max_examples=150)
@given(
    groups=GROUPS,
    mutations=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=3),
    wrong_by=st.sampled_from([0, 0, 0, 1, -1]),
    effort=st.sampled_from([1, 7, 10**9]),
    base_timestamp=st.sampled_from([TIME, 39, -1, INT64_MAX]),
    wants_oldest=st.booleans(),
)
def test_the_check_takes_what_the_reader_reads(
    groups: list[tuple[int, int | None, int | None, tuple[tuple[str, bytes | None], ...], int]],
    mutations: list[tuple[float, int]],
    wrong_by: int,
    effort: int,
    base_timestamp: int,
    wants_oldest: bool,
) -> None:
    block = block_of(groups)
    count = max(1, sum(group[0] for group in groups) + wrong_by)
    for place, byte in mutations:
        block[int(place * len(block))] = byte
    read = read_by_record_block(block, count, base_timestamp)
    check = passes(block, count, effort, base_timestamp if wants_oldest else None)
    assert (read is not None) == (check is not None)
    if read is not None and check is not None:
        keyless = [record.offset for record in read if record.key is None]
        assert (check.keyless_count, check.keyless) == (len(keyless), keyless[:KEYLESS_NAMED_MAX])
        times = [(record.timestamp, record.offset) for record in read if wants_oldest and record.timestamp != -1]
        assert check.oldest == min(times, default=(INT64_MAX, 0))
        newest = max(record.timestamp for record in read)
        assert check.newest == (max(-1, newest) if wants_oldest else -1)
        highest = newest - base_timestamp
        for limit in {highest, highest + 1, highest - 1, 0, 63, 64}:
            if 0 <= limit <= INT64_MAX - max(0, base_timestamp):
                confirming = passes(block, count, effort, limit=limit)
                assert confirming is not None
                # Sums that overflow are left to the check that finds the timestamps.
                is_exact = limit == highest and (base_timestamp < INT64_MAX or confirming.is_limit_exact)
                assert confirming.is_limit_exact == is_exact
    if count == 1 and is_sound_single(memoryview(block)):
        assert read is not None


def test_every_change_of_one_byte_is_judged_alike() -> None:
    """Over all the widths of an offset delta in a run, and in a record of its own."""
    chance = Random(1)
    for groups in (
        [(1, 3, 5, (), 0)],
        [(1, None, None, (("h", b"v"), ("g", None)), 0)],
        [(70, None, 20, (), 1), (20, 4, 20, (), 1)],
        [(40, 2, 150, (("h", b"v"), ("g", None)), 100)],
    ):
        block = block_of(groups)
        count = sum(group[0] for group in groups)
        assert passes(block, count) is not None
        for place in range(len(block)):
            old = block[place]
            for byte in {0, 1, 2, old ^ 1, old ^ 0x80, chance.randrange(256)}:
                block[place] = byte
                reads = read_by_record_block(block, count) is not None
                assert (passes(block, count) is not None) == reads, (groups, place, byte)
                if count == 1 and not reads:
                    assert not is_sound_single(memoryview(block))
            block[place] = old


def test_long_runs_are_judged_alike_around_every_change_of_the_offset_delta() -> None:
    count = 3 * 8192 + 10
    records = [Record(number, TIME + number % 3, b"k", b"v") for number in range(count)]
    sound = bytes(build_batch(records)[HEADER_SIZE:])
    assert passes(sound, count) is not None
    starts = _starts(sound, count)
    for index in (0, 1, 62, 63, 64, 65, 128, 8191, 8192, 8193, 16383, 16384, 2 * 8192 + 5, count - 1):
        for place in range(starts[index], starts[index + 1]):
            for change in (1, 2, 0x80):
                block = bytearray(sound)
                block[place] ^= change
                # The reader agrees on a small part; here it is enough that exactly lengths and numbers are fixed.
                is_free = _is_free(sound[starts[index] : starts[index + 1]], place - starts[index], change)
                assert (passes(block, count) is not None) == is_free, (index, place - starts[index], change)


def _starts(block: bytes, count: int) -> list[int]:
    starts = [0]
    for _ in range(count):
        starts.append(starts[-1] + 1 + (block[starts[-1]] >> 1))
    assert starts[-1] == len(block)
    return starts


def _is_free(record: bytes, place: int, change: int) -> bool:
    """Attributes, the low bits of the timestamp delta, the key's byte and the value's byte may be anything."""
    return place in (1, len(record) - 4, len(record) - 2) or (place == 2 and change != 0x80)


def test_a_million_records_are_passed_with_four_bytes_of_offset_delta() -> None:
    count = 1_048_576 + 300
    block = bytearray(build_batch([Record(number, TIME, b"", b"") for number in range(count)])[HEADER_SIZE:])
    check = passes(block, count)
    assert check is not None
    assert check.keyless_count == 0
    # The offset delta of a record in the last stretch.
    block[-14] ^= 1
    assert passes(block, count) is None


def test_timestamps_of_ten_bytes_in_a_run_are_judged_alike() -> None:
    """The last of the ten bytes may hold one bit, and a column does not show that."""
    count = 40
    block = block_of([(count, 2, 5, (), 0)])
    size = len(block) // count
    for last in (1, 2, 0x7F):
        long = bytearray()
        for number in range(count):
            record = block[number * size : (number + 1) * size]
            top = last if number == 20 else 1
            long += bytes([record[0] + 18]) + record[1:2] + b"\xff" * 9 + bytes([top]) + record[3:]
        reads = read_by_record_block(long, count) is not None
        assert reads == (last == 1)
        assert (passes(long, count) is not None) == reads


def test_headers_count_as_effort_and_are_walked_in_steps() -> None:
    """The event loop is kept no longer by a record with very many headers than by very many records."""
    count = 50_000
    headers = tuple((f"{number % 10}", b"v" * (number % 3)) for number in range(count))
    block = bytes(build_batch([Record(0, TIME, None, b"v", headers), Record(1, TIME)])[HEADER_SIZE:])
    check = RecordCheck(block, 2)
    steps = 1
    while not check.advance(1000):
        assert check.effort <= steps * 1000
        steps += 1
    assert (steps, check.keyless) == (51, [0, 1])
    for place in (len(block) - 8 - 2, len(block) // 2):
        cut = block[:place] + b"\xff" * 11 + block[place + 11 :]
        assert (passes(cut, 2, 1000) is None) == (read_by_record_block(cut, 2) is None)


def test_many_records_with_headers_take_no_more_effort_at_once_than_they_are_given() -> None:
    headers = tuple(("h" * (number % 3), b"") for number in range(400))
    records = [Record(number, TIME, b"k" * (number % 4), None, headers) for number in range(300)]
    check = RecordCheck(bytes(build_batch(records)[HEADER_SIZE:]), 300)
    steps = 1
    while not check.advance(1000):
        assert check.effort <= steps * 1000 + 300
        steps += 1
    assert steps > 100


def test_more_headers_than_a_record_may_have_are_refused_before_one_is_walked() -> None:
    for count, is_taken in ((1000, True), (HEADERS_MAX, True), (HEADERS_MAX + 1, False)):
        block = bytes(build_batch([Record(0, TIME, b"k", b"v", (("", None),) * count)])[HEADER_SIZE:])
        check = RecordCheck(block, 1)
        if is_taken:
            assert check.advance(10**9)
            continue
        with pytest.raises(BadRecord) as refused:
            check.advance(10**9)
        assert (refused.value.index, check.effort) == (0, 0)
        assert str(HEADERS_MAX) in refused.value.what


def test_the_oldest_of_a_million_records_is_found_with_the_effort_of_a_run() -> None:
    count = 1_000_000
    records = [Record(number, TIME + number // 1000, b"", b"") for number in range(count)]
    records[700_000] = Record(700_000, TIME - 5, b"", b"")
    check = RecordCheck(bytes(build_batch(records)[HEADER_SIZE:]), count, TIME)
    while not check.advance(16_384):
        pass
    assert check.oldest == (TIME - 5, 700_000)
    assert check.effort < count // 16


def test_a_run_in_which_every_timestamp_is_another_takes_no_more_effort_at_once_than_it_is_given() -> None:
    count = 20_000
    records = [Record(number, TIME - number, b"", b"") for number in range(count)]
    check = RecordCheck(bytes(build_batch(records)[HEADER_SIZE:]), count, TIME)
    steps = 1
    while not check.advance(2000):
        assert check.effort <= steps * 2000 + 1024
        steps += 1
    assert check.oldest == (TIME - count + 1, count - 1)
    assert check.effort >= count


def test_a_run_of_records_without_a_timestamp_has_no_oldest() -> None:
    block = bytes(build_batch([Record(number, -1, b"k", b"v") for number in range(60)])[HEADER_SIZE:])
    check = passes(block, 60, base_timestamp=-1)
    assert check is not None
    assert (check.oldest, check.effort < 30) == ((INT64_MAX, 0), True)
