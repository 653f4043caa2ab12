"""One pass over a log: what stays of keys, tombstones, batches and segments."""

from __future__ import annotations

from itertools import pairwise

import pytest

from semel.log.disk import read_file
from semel.log.outcomes import Origin
from semel.log.retention import apply_retention
from semel.log.segments.offset_index import OffsetIndex
from semel.log.segments.time_index import TimeIndex
from semel.wire.records import (
    RECORD_COUNT_POSITION,
    Codec,
    Record,
    TimestampType,
    build_batch,
    iterate_records,
    patch_codec,
    verify_crc,
)
from tests.logs import FOLDER, values
from tests.unit.log.compaction.bench import COMPACT_DELETE, Bench, latest

HOUR_MS = 3_600_000


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    bench = Bench()
    bench.put(("a", "1"), ("b", "1"), ("a", "2"))
    bench.put(("c", "1"))
    bench.put(("b", "2"), ("a", "3"))
    bench.clean()
    assert bench.contents() == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3")]


def test_a_record_beyond_the_range_replaces_nothing_yet() -> None:
    bench = Bench()
    bench.put(("a", "1"))
    bench.roll()
    bench.checkpoint()
    bench.put(("a", "2"))
    bench.cleaner().choose(bench.now_ms)
    for _ in bench.cleaner().clean(bench.log, bench.now_ms):
        pass
    assert bench.contents() == [(0, "a", "1"), (1, "a", "2")]


def test_a_batch_keeps_everything_but_its_records() -> None:
    bench = Bench()
    bench.log.set_leader_epoch(4)
    bench.put(("a", "1"), ("b", "1"), ("a", "2"), producer=9, epoch=3, codec=Codec.ZSTD)
    before = bench.headers()[0]
    bench.put(("x", "the last of its producer and segment"), producer=9, epoch=3)
    bench.clean()
    data, after = bench.batches()[0]
    assert [record.offset for record in iterate_records(data)] == [1, 2]
    assert verify_crc(data, 0, after)
    changed = {"batch_length", "crc", "record_count"}
    assert {name: value for name, value in after._asdict().items() if name not in changed} == {
        name: value for name, value in before._asdict().items() if name not in changed
    }


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compressed_batch_stays_compressed(codec: Codec) -> None:
    bench = Bench()
    bench.put(*((f"{number % 7}", f"{number}" * 50) for number in range(20)), codec=codec)
    bench.clean()
    assert bench.headers()[0].compression is codec
    assert bench.contents() == [(number, f"{number % 7}", f"{number}" * 50) for number in range(13, 20)]


def test_the_largest_timestamp_of_a_batch_is_that_of_what_stays() -> None:
    bench = Bench()
    records = [Record(0, 5000, b"a", b"1"), Record(1, 9000, b"b", b"1"), Record(2, 7000, b"a", b"2")]
    bench.log.append(memoryview(bytearray(build_batch(records))), now_ms=0, origin=Origin.COORDINATOR)
    bench.put(("b", "2"), timestamp=100)
    bench.clean()
    assert bench.headers()[0].max_timestamp == 7000
    assert [(read.offset, read.timestamp) for read in bench.records()] == [(2, 7000), (3, 100)]


def test_under_log_append_time_every_record_keeps_the_time_of_the_append() -> None:
    bench = Bench()
    records = [Record(0, 5000, b"a", b"1"), Record(1, 6000, b"b", b"1")]
    data = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=8000)
    bench.log.append(memoryview(bytearray(data)), now_ms=0, origin=Origin.COORDINATOR)
    bench.put(("b", None), timestamp=100)
    bench.clean()
    assert bench.headers()[0].timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [(read.offset, read.timestamp) for read in bench.records()] == [(0, 8000), (2, 100)]


def test_headers_of_records_and_empty_values_survive() -> None:
    bench = Bench()
    kept = Record(1, 5, b"", b"", (("h", None), ("h", b"v")))
    records = [Record(0, 5, b"a", b"1"), kept, Record(2, 5, b"a", b"")]
    bench.log.append(memoryview(bytearray(build_batch(records))), now_ms=0, origin=Origin.COORDINATOR)
    bench.clean()
    assert next(iterate_records(bench.batches()[0][0])) == kept


def test_a_record_without_a_key_is_dropped_and_counted() -> None:
    bench = Bench()
    bench.put((None, "from before the topic was compacted"), ("a", "1"))
    cleaner = bench.clean()
    assert bench.contents() == [(1, "a", "1")]
    assert cleaner.statistics.records_without_key == 1


# Tombstones


def test_a_tombstone_stays_until_its_delete_horizon_which_the_first_pass_sets() -> None:
    bench = Bench(settings={"delete_retention_ms": HOUR_MS})
    bench.put(("a", "1"), ("b", "1"))
    bench.put(("a", None))
    cleaner = bench.clean()
    assert bench.contents() == [(1, "b", "1"), (2, "a", None)]
    assert [header.delete_horizon_ms for header in bench.headers()] == [None, bench.now_ms + HOUR_MS]
    horizon_ms = bench.now_ms + HOUR_MS
    bench.now_ms = horizon_ms - 1
    bench.put(("x", "something to clean"))
    bench.clean(cleaner)
    assert (2, "a", None) in bench.contents()
    assert bench.headers()[1].delete_horizon_ms == horizon_ms, "it is set once"
    bench.now_ms += 1
    bench.put(("y", "something to clean"))
    bench.clean(cleaner)
    assert bench.contents() == [(1, "b", "1"), (3, "x", "something to clean"), (4, "y", "something to clean")]


def test_the_time_of_a_record_survives_the_delete_horizon_of_its_batch() -> None:
    bench = Bench()
    bench.put(("a", None), ("b", "1"), timestamp=12_345)
    bench.clean()
    assert bench.headers()[0].delete_horizon_ms is not None
    assert [read.timestamp for read in bench.records()] == [12_345, 12_345]
    assert bench.headers()[0].max_timestamp == 12_345


def test_a_tombstone_that_a_later_value_replaces_goes_at_once() -> None:
    bench = Bench()
    bench.put(("a", None))
    bench.put(("a", "back"))
    bench.clean()
    assert bench.contents() == [(1, "a", "back")]


def test_without_retention_of_tombstones_the_second_pass_removes_them() -> None:
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", None))
    bench.put(("b", "1"))
    cleaner = bench.clean()
    assert bench.contents() == [(0, "a", None), (1, "b", "1")]
    bench.put(("c", "1"))
    bench.clean(cleaner)
    assert bench.contents() == [(1, "b", "1"), (2, "c", "1")]


# Batches that nobody can judge


@pytest.mark.parametrize("damage", ["a bad CRC", "a count that lies"])
def test_a_batch_that_cannot_be_decoded_stays_as_it_is_and_replaces_nothing(damage: str) -> None:
    bench = Bench()
    bench.put(("a", "1"))
    data = bytearray(build_batch([Record(0, 5, b"a", b"2"), Record(1, 5, b"a", b"3")]))
    if damage == "a bad CRC":
        data[-3] ^= 1
    else:
        data = bytearray(build_batch([Record(0, 5, b"a", b"2" * 200)], codec=Codec.GZIP, last_offset_delta=1))
        data[RECORD_COUNT_POSITION : RECORD_COUNT_POSITION + 4] = (2).to_bytes(4, "big")
        patch_codec(data, Codec.GZIP)  # which makes the CRC true
    bench.log.append(memoryview(data), now_ms=0, origin=Origin.COORDINATOR)
    bench.put(("b", "1"))
    cleaner = bench.clean()
    kept = [data for data, _ in bench.batches()]
    assert len(kept) == 3
    assert kept[1] == bytes(data)
    assert cleaner.statistics.batches_undecodable == 1


def test_a_segment_with_something_that_is_no_batch_is_not_touched_again() -> None:
    bench = Bench()
    bench.put(("a", "1"))
    bench.put(("a", "2"))
    bench.roll()
    bench.checkpoint()
    segment = bench.log.segments.first
    segment.file.write(segment.size_bytes // 2 + 16, b"\xff")
    before = read_file(bench.disk, segment.path(".log"))
    cleaner = bench.clean()
    assert read_file(bench.disk, segment.path(".log")) == before
    assert cleaner.statistics.passes_given_up == 1
    assert cleaner.choose(bench.now_ms + 10**12) is None
    assert bench.log.offline is None


# Segments


def test_small_segments_become_one_and_a_full_one_stays_alone() -> None:
    bench = Bench(settings={"segment_bytes": 1000})
    for number in range(4):
        bench.put((f"{number}", "1"))
        bench.roll()
    bench.put(("large", "x" * 900))
    bench.clean()
    assert [segment.base_offset for segment in bench.log.segments] == [0, 4, 5]
    assert [name for name in bench.disk.list(FOLDER) if name.endswith(".log")] == [
        f"{base_offset:020d}.log" for base_offset in (0, 4, 5)
    ]
    assert [name for name in bench.disk.list(FOLDER) if name.endswith(".snapshot")] == [
        f"{base_offset:020d}.snapshot" for base_offset in (4, 5)
    ]
    assert [offset for offset, _, _ in bench.contents()] == [0, 1, 2, 3, 4]


def test_every_new_segment_reaches_to_where_the_next_one_begins() -> None:
    bench = Bench(settings={"segment_bytes": 200})
    for number in range(9):
        bench.put(("a", f"{number}"), ("b", f"{number}"))
    bench.clean()
    segments = list(bench.log.segments)
    assert len(segments) > 3
    for segment, following in pairwise(segments):
        assert [header for _, header in segment.headers()][-1].next_offset == following.base_offset
    assert bench.contents() == [(16, "a", "8"), (17, "b", "8")]


def test_a_log_is_found_again_where_it_ends_even_if_its_last_records_are_gone() -> None:
    """The active segment is empty, and its name is lost: only the compacted segment knows the end."""
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", "1"))
    bench.put(("a", None))
    bench.put(("b", None))
    cleaner = bench.clean()
    bench.put(("c", None))
    bench.clean(cleaner)
    bench.put(("d", None))
    bench.clean(cleaner)
    end_offset = bench.log.log_end_offset
    bench.disk.kill()
    bench.disk.remove(f"{FOLDER}/{end_offset:020d}.log")
    assert bench.open().log_end_offset == end_offset


def test_a_segment_in_which_nothing_changes_is_left_alone() -> None:
    bench = Bench(settings={"segment_bytes": 200})
    for number in range(6):
        bench.put((f"{number}", "x" * 100))
    cleaner = bench.clean()
    assert (cleaner.statistics.segments_left_alone, cleaner.statistics.segments_replaced) == (6, 0)
    assert cleaner.statistics.bytes_written == 0
    bench.put(("3", "again" + "x" * 100))
    bench.clean(cleaner)
    assert (cleaner.statistics.segments_left_alone, cleaner.statistics.segments_replaced) == (6 + 6, 1)


def test_a_second_pass_right_away_changes_nothing() -> None:
    bench = Bench(settings={"segment_bytes": 300})
    for number in range(20):
        bench.put((f"{number % 3}", f"{number}"), producer=number % 2)
    cleaner = bench.clean()
    files = {name: read_file(bench.disk, f"{FOLDER}/{name}") for name in bench.disk.list(FOLDER)}
    assert cleaner.choose(bench.now_ms) is None
    bench.clean(cleaner)
    bench.clean()
    assert {name: read_file(bench.disk, f"{FOLDER}/{name}") for name in bench.disk.list(FOLDER)} == files


def test_the_indexes_of_a_new_segment_lead_to_its_batches() -> None:
    bench = Bench(settings={"index_interval_bytes": 100})
    for number in range(30):
        bench.put((f"{number % 20}", "x" * 40), timestamp=1000 * number)
    bench.clean()
    segment = bench.log.segments.first
    places = {header.last_offset: (position, header) for position, header in segment.headers()}
    offsets = OffsetIndex.load(read_file(bench.disk, segment.path(".index")), 0)
    times = TimeIndex.load(read_file(bench.disk, segment.path(".timeindex")), 0)
    assert offsets.entries > 5
    assert all(places[offset][0] == position for offset, position in offsets)
    assert all(places[offset][1].max_timestamp == timestamp for timestamp, offset in times)
    assert times.last == (29_000, 29)
    assert [bench.log.offset_for_timestamp(1000 * number).offset for number in range(30)] == [  # type: ignore[union-attr]
        max(10, number) for number in range(30)
    ]


def test_a_reader_in_the_middle_of_the_log_goes_on_where_it_was() -> None:
    bench = Bench(settings={"segment_bytes": 300})
    for number in range(12):
        bench.put((f"{number % 4}", f"{number}"))
    bench.clean()
    for offset in range(bench.log.log_end_offset):
        bench.log.log_start_offset = offset
        assert [at for at, _ in values(bench.log)] == [at for at in range(8, 12) if at >= offset]


# A map that is too small


@pytest.mark.parametrize("keys_max", [1, 3, 7])
def test_a_map_that_is_full_ends_the_pass_there_and_the_next_one_goes_on(keys_max: int) -> None:
    bench = Bench(settings={"segment_bytes": 400})
    for number in range(30):
        bench.put((f"{number % 10}", f"{number}"), (f"{number % 4}", f"{number}'"))
    expected = latest(bench.records())
    cleaner = bench.cleaner()
    cleaner._map_entries_max = keys_max
    reached = [0]
    while bench.log.recovery_point == 0 or cleaner.cleanable(bench.log, bench.now_ms) is not None:
        bench.clean(cleaner)
        reached.append(cleaner.first_dirty_offset(bench.log))
        assert reached[-1] > reached[-2]
        assert latest(bench.records()) == expected
    assert len(reached) > 3
    assert reached[-1] == 60
    bench.open()
    assert latest(bench.records()) == expected
    assert len(bench.contents()) == 10


def test_a_batch_with_more_keys_than_the_map_holds_is_covered_all_the_same() -> None:
    bench = Bench()
    bench.put(*((f"{number}", "1") for number in range(100)))
    bench.put(*((f"{number}", "2") for number in range(100)))
    cleaner = bench.cleaner(dedupe_buffer_size_bytes=1)
    while bench.log.recovery_point == 0 or cleaner.cleanable(bench.log, bench.now_ms) is not None:
        bench.clean(cleaner)
    assert bench.contents() == [(100 + number, f"{number}", "2") for number in range(100)]


# Beside other things that remove


def test_retention_and_compaction_work_on_the_same_log() -> None:
    bench = Bench(settings={"cleanup_policy": COMPACT_DELETE, "retention_ms": 10_000, "segment_bytes": 200})
    for number in range(10):
        bench.put((f"{number % 3}", f"{number}"))
        bench.now_ms += 2000
    cleaner = bench.clean()
    assert bench.contents() == [(7, "1", "7"), (8, "2", "8"), (9, "0", "9")]
    bench.now_ms += 6000
    assert apply_retention(bench.log, bench.now_ms) > 0
    assert [offset for offset, _, _ in bench.contents()] == [8, 9]
    bench.put(("0", "new"))
    bench.clean(cleaner)
    assert bench.contents() == [(8, "2", "8"), (10, "0", "new")]


def test_records_before_the_log_start_are_not_seen_again() -> None:
    bench = Bench(settings={"segment_bytes": 300})
    for number in range(12):
        bench.put((f"{number % 5}", f"{number}"))
    bench.log.delete_records_before(9)
    bench.clean()
    assert [offset for offset, _, _ in bench.contents()] == [9, 10, 11]
    assert bench.log.log_start_offset == 9


def test_what_was_written_before_the_swap_is_not_taken_for_unsynced_after_it() -> None:
    bench = Bench()
    for number in range(10):
        bench.put((f"{number % 2}", f"{number}"))
    bench.log.take_unsynced()
    bench.clean()
    assert bench.log.take_unsynced().ranges == ()
    bench.put(("x", "new"))
    (unsynced,) = bench.log.take_unsynced().ranges
    assert (unsynced.base_offset, unsynced.start) == (10, 0)
    assert unsynced.file is bench.log.segments.active.file
