"""Append and read on one partition."""

from __future__ import annotations

import errno
from dataclasses import replace
from uuid import UUID

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.config import CleanupPolicy, LogConfig
from semel.log.outcomes import Appended, Isolation, Origin
from semel.log.partition_log import PartitionLog
from semel.log.retention import apply_retention, below_start_steps
from semel.log.segments.transaction_index import AbortedTransaction
from semel.log.timestamp_lookup import STEP_EFFORT, at_once, first_at_or_after
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import TopicPartition
from semel.wire.records import Codec, TimestampType, iterate_headers, parse_header
from tests.logs import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    batches,
    committed_values,
    end_transaction,
    marker,
    open_log,
    produced,
    read_all,
    values,
)

SMALL_SEGMENTS = LogConfig(segment_bytes=300, index_interval_bytes=100)


@pytest.fixture
def log() -> PartitionLog:
    return open_log(VirtualDisk())


def refusal(log: PartitionLog, records: memoryview) -> ErrorCode:
    before = (log.log_end_offset, read_all(log))
    with pytest.raises(KafkaError) as caught:
        append(log, records)
    assert (log.log_end_offset, read_all(log)) == before, "a refused batch must change nothing"
    return caught.value.code


# Offsets


def test_batches_get_the_next_offsets_and_come_back_as_they_were_sent(log: PartitionLog) -> None:
    first = append(log, batch("a", "b"))
    second = append(log, batch("c"))
    assert (first, second) == (Appended(0, 1, None, 0, False), Appended(2, 2, None, 0, False))
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_batch_carries_the_leader_epoch_it_was_written_in(log: PartitionLog) -> None:
    append(log, batch("a"))
    log.set_leader_epoch(3)
    append(log, batch("b"))
    assert [header.partition_leader_epoch for _, header in iterate_headers(read_all(log))] == [0, 3]
    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 2, 3)] == [(0, 1), (0, 1), (3, 2)]


def test_nothing_is_readable_above_the_high_watermark(log: PartitionLog) -> None:
    log.on_durable = lambda _: None
    append(log, batch("a"))
    append(log, batch("b"))
    assert (log.high_watermark, read_all(log)) == (0, b"")
    log.advance_high_watermark(1)
    assert values(log) == [(0, b"a")]


def test_the_high_watermark_never_goes_back_nor_past_the_log_end(log: PartitionLog) -> None:
    append(log, batch("a"))
    assert not log.advance_high_watermark(0)
    assert not log.advance_high_watermark(100)
    assert log.high_watermark == 1


@pytest.mark.parametrize("offset", [-1, 3])
def test_an_offset_the_log_does_not_have_is_out_of_range(log: PartitionLog, offset: int) -> None:
    append(log, batch("a", "b"))
    with pytest.raises(KafkaError) as caught:
        log.read(offset, 100, isolation=Isolation.READ_UNCOMMITTED)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_within_a_batch_returns_the_whole_batch(log: PartitionLog) -> None:
    append(log, batch("a", "b", "c"))
    found = log.read(2, 1_000, isolation=Isolation.READ_UNCOMMITTED).records
    assert parse_header(found).base_offset == 0


def test_the_first_batch_comes_whole_however_small_the_limit(log: PartitionLog) -> None:
    append(log, batch(b"x" * 500))
    append(log, batch("b"))
    found = log.read(0, 10, isolation=Isolation.READ_UNCOMMITTED).records
    assert len(found) == parse_header(found).size_bytes
    none = log.read(0, 10, isolation=Isolation.READ_UNCOMMITTED, at_least_one=False).records
    assert none == b""


# Segments


def test_segments_roll_by_size_and_reads_go_on_across_them() -> None:
    log = open_log(VirtualDisk(), config=SMALL_SEGMENTS)
    for number in range(50):
        append(log, batch(f"value {number}"))
    assert len(log.segments) > 10
    assert all(segment.size_bytes <= 300 for segment in log.segments)
    assert values(log) == [(number, f"value {number}".encode()) for number in range(50)]
    for offset in range(50):
        found = log.read(offset, 1, isolation=Isolation.READ_UNCOMMITTED).records
        assert parse_header(found).base_offset == offset


def test_a_segment_rolls_when_its_first_record_is_older_than_segment_ms() -> None:
    log = open_log(VirtualDisk(), config=LogConfig(segment_ms=1000))
    append(log, batch("a", timestamp=NOW_MS))
    append(log, batch("b", timestamp=NOW_MS + 1000))
    assert len(log.segments) == 1
    append(log, batch("c", timestamp=NOW_MS + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_jitter_takes_something_off_segment_ms_and_from_each_partition_something_else() -> None:
    """The same after every start; never so much that nothing is left."""
    config = LogConfig(segment_ms=1000, segment_jitter_ms=5000)

    def opened(index: int) -> PartitionLog:
        return open_log(VirtualDisk(), config=config, topic_partition=TopicPartition("orders", index))

    ages = [opened(index).segment_age_max_ms for index in range(20)]
    assert all(0 < age <= 1000 for age in ages)
    assert len(set(ages)) > 10
    log = opened(3)
    append(log, batch("a", timestamp=NOW_MS))
    append(log, batch("b", timestamp=NOW_MS + ages[3]))
    assert len(log.segments) == 1
    append(log, batch("c", timestamp=NOW_MS + ages[3] + 1))
    assert len(log.segments) == 2


def test_reads_find_every_offset_with_every_batch_size() -> None:
    log = open_log(VirtualDisk(), config=LogConfig(segment_bytes=20_000, index_interval_bytes=300))
    expected = []
    for number in range(120):
        records = [f"{number}-{i}" * (1 + number % 7 * 9) for i in range(1 + number % 5)]
        expected += [(log.log_end_offset + i, text.encode()) for i, text in enumerate(records)]
        append(log, batch(*records))
    assert values(log) == expected
    for offset in range(log.log_end_offset):
        header = parse_header(log.read(offset, 1, isolation=Isolation.READ_UNCOMMITTED).records)
        assert header.base_offset <= offset <= header.last_offset


# What a client may send


def test_scenario_1_a_repeated_batch_is_answered_with_its_first_offset(log: PartitionLog) -> None:
    append(log, batch("before"))
    assert append(log, produced(0, "a", "b")) == Appended(1, 2, None, 0, False)
    assert append(log, produced(0, "a", "b")) == Appended(1, 2, None, 0, True)
    assert log.log_end_offset == 3


def test_scenario_3_a_gap_in_the_sequence_appends_nothing(log: PartitionLog) -> None:
    append(log, produced(0))
    assert refusal(log, produced(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, produced(1)).base_offset == 1


def test_a_batch_with_a_flipped_bit_is_corrupt(log: PartitionLog) -> None:
    records = batch("a")
    records[-1] ^= 1
    assert refusal(log, records) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 11, 60, 65])
def test_a_batch_that_is_cut_off_is_corrupt(log: PartitionLog, size: int) -> None:
    assert refusal(log, batch("a value that is long enough")[:size]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_invalid(log: PartitionLog, magic: int) -> None:
    records = batch("a")
    records[16] = magic
    assert refusal(log, records) is ErrorCode.INVALID_RECORD


def test_two_batches_in_one_request_are_invalid(log: PartitionLog) -> None:
    assert refusal(log, memoryview(bytearray(bytes(batch("a")) * 2))) is ErrorCode.INVALID_RECORD


def test_scenario_44_a_control_batch_from_a_client_is_invalid(log: PartitionLog) -> None:
    assert refusal(log, marker(committed=True)) is ErrorCode.INVALID_RECORD


def test_a_codec_without_a_name_is_unsupported(log: PartitionLog) -> None:
    from semel.wire.crc import crc32c

    records = batch("a")
    records[22] |= 7
    records[17:21] = crc32c(records[21:]).to_bytes(4, "big")
    assert refusal(log, records) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_above_max_message_bytes_is_too_large() -> None:
    log = open_log(VirtualDisk(), config=LogConfig(max_message_bytes=200))
    assert refusal(log, batch(b"x" * 200)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_above_segment_bytes_is_too_large_for_any_segment() -> None:
    log = open_log(VirtualDisk(), config=LogConfig(segment_bytes=200))
    assert refusal(log, batch(b"x" * 200)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_timestamp_too_far_ahead_is_invalid(log: PartitionLog) -> None:
    assert refusal(log, batch("a", timestamp=NOW_MS + 3_600_001)) is ErrorCode.INVALID_TIMESTAMP
    append(log, batch("a", timestamp=NOW_MS + 3_600_000))


def test_a_timestamp_too_far_back_is_invalid_where_the_topic_says_so() -> None:
    log = open_log(VirtualDisk(), config=LogConfig(message_timestamp_before_max_ms=1000))
    assert refusal(log, batch("a", timestamp=NOW_MS - 1001)) is ErrorCode.INVALID_TIMESTAMP
    append(log, batch("a", timestamp=NOW_MS - 1000))


def test_a_compacted_topic_needs_keys() -> None:
    log = open_log(VirtualDisk(), config=LogConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT})))
    assert refusal(log, batch("a", "b", keys=[b"k", None])) is ErrorCode.INVALID_RECORD
    append(log, batch("a", "b", keys=[b"k", b""]))


def test_log_append_time_takes_the_place_of_the_producers_time() -> None:
    log = open_log(VirtualDisk(), config=LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    appended = append(log, batch("a", timestamp=5), now_ms=NOW_MS + 1)
    assert appended.log_append_time_ms == NOW_MS + 1
    header = parse_header(read_all(log))
    assert (header.max_timestamp, header.timestamp_type) == (NOW_MS + 1, TimestampType.LOG_APPEND_TIME)


@pytest.mark.parametrize("stored", list(Codec))
@pytest.mark.parametrize("sent", list(Codec))
def test_batches_are_stored_in_the_codec_of_the_topic(stored: Codec, sent: Codec) -> None:
    log = open_log(VirtualDisk(), config=LogConfig(compression_type=stored))
    append(log, batch("a" * 100, "b", codec=sent))
    assert parse_header(read_all(log)).compression is stored
    assert values(log) == [(0, b"a" * 100), (1, b"b")]


# Transactions, as a partition sees them


def test_scenario_39_the_last_stable_offset_waits_for_the_oldest_open_transaction(log: PartitionLog) -> None:
    append(log, produced(0, producer=1, transactional=True))
    append(log, produced(0, producer=2, transactional=True))
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    end_transaction(log, committed=True, producer=2)
    assert (log.high_watermark, log.last_stable_offset) == (3, 0)
    end_transaction(log, committed=False, producer=1)
    assert (log.high_watermark, log.last_stable_offset) == (4, 4)
    assert committed_values(log) == [(1, b"value")]


def test_scenario_40_a_marker_above_the_high_watermark_does_not_move_the_last_stable_offset(log: PartitionLog) -> None:
    append(log, produced(0, transactional=True))
    log.on_durable = lambda _: None
    end_transaction(log, committed=True)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_scenario_40_the_last_stable_offset_is_never_below_the_log_start(log: PartitionLog) -> None:
    append(log, produced(0, "a", "b", transactional=True))
    log.delete_records_before(1)
    assert log.last_stable_offset == 1


def test_scenario_41_an_aborted_transaction_over_several_segments_is_reported_to_every_read_it_overlaps() -> None:
    log = open_log(VirtualDisk(), config=SMALL_SEGMENTS)
    for sequence in range(20):
        append(log, produced(sequence, producer=1, transactional=True))
    for _ in range(5):
        append(log, batch("between"))
    end_transaction(log, committed=False, producer=1)
    assert len(log.segments) > 5
    whole = AbortedTransaction(producer_id=1, first_offset=0, last_offset=25, last_stable_offset=26)
    for offset in range(20):
        assert log.read(offset, 1, isolation=Isolation.READ_COMMITTED).aborted == [whole]
    assert [offset for offset, _ in committed_values(log)] == [20, 21, 22, 23, 24]


def test_scenario_41_a_read_is_told_only_of_the_aborted_transactions_it_overlaps(log: PartitionLog) -> None:
    for transaction in range(4):
        append(log, produced(transaction, producer=1, transactional=True))
        end_transaction(log, committed=transaction % 2 == 1, producer=1)
    first = AbortedTransaction(producer_id=1, first_offset=0, last_offset=1, last_stable_offset=2)
    third = AbortedTransaction(producer_id=1, first_offset=4, last_offset=5, last_stable_offset=6)
    assert log.read(0, 1, isolation=Isolation.READ_COMMITTED).aborted == [first]
    assert log.read(2, 1, isolation=Isolation.READ_COMMITTED).aborted == []
    assert log.read(0, 10_000, isolation=Isolation.READ_COMMITTED).aborted == [first, third]
    assert log.read(6, 10_000, isolation=Isolation.READ_COMMITTED).aborted == []


def test_read_uncommitted_sees_everything_and_no_aborted_list(log: PartitionLog) -> None:
    append(log, produced(0, transactional=True))
    result = log.read(0, 1_000, isolation=Isolation.READ_UNCOMMITTED)
    assert (len(batches(result.records)), result.aborted) == (1, None)


# Time


def test_offsets_are_found_by_timestamp() -> None:
    log = open_log(VirtualDisk(), config=SMALL_SEGMENTS)
    for number in range(40):
        append(log, batch("a", "b", timestamp=1_000 + number * 10))
    assert log.offset_for_timestamp(0) == (1_000, 0, 0)
    assert log.offset_for_timestamp(1_100) == (1_100, 20, 0)
    assert log.offset_for_timestamp(1_101) == (1_110, 22, 0)
    assert log.offset_for_timestamp(1_391) is None
    assert log.largest_timestamp() == (1_390, 78, 0)


def test_the_first_of_several_records_with_the_largest_timestamp_is_found_although_time_goes_back() -> None:
    log = open_log(VirtualDisk(), config=SMALL_SEGMENTS)
    for timestamp in (50, 900, 20, 900, 30, 10, 40, 60, 70):
        append(log, batch("a", timestamp=timestamp))
    assert log.largest_timestamp() == (900, 1, 0)
    assert log.offset_for_timestamp(60) == (900, 1, 0)


def test_a_marker_is_found_by_its_timestamp_as_in_kafka(log: PartitionLog) -> None:
    """Otherwise a topic whose last record is a marker, as after every transaction, would have no largest timestamp."""
    append(log, batch("a", timestamp=NOW_MS - 10))
    how = {"producer_id": 2, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, batch("b", timestamp=NOW_MS - 5, **how))
    end_transaction(log, committed=True, producer=2)
    assert log.largest_timestamp() == (NOW_MS, 2, 0)
    assert log.offset_for_timestamp(NOW_MS - 4) == (NOW_MS, 2, 0)
    append(log, batch("c", timestamp=NOW_MS + 1))
    assert log.largest_timestamp() == (NOW_MS + 1, 3, 0)


def append_with_header_as_it_is(log: PartitionLog, records: memoryview) -> None:
    """An older version wrote a client's batch without correcting its largest timestamp."""
    log.append(records, NOW_MS, origin=Origin.COORDINATOR)


def with_false_largest_timestamp(batches: int) -> PartitionLog:
    """The header of the first batch says a time that none of its records has; other batches follow."""
    log = open_log(VirtualDisk(), config=replace(SMALL_SEGMENTS, segment_bytes=2**20, index_interval_bytes=2**20))
    append_with_header_as_it_is(log, batch("a", max_timestamp=NOW_MS + 1000))
    for _ in range(batches):
        append(log, batch("b"))
    return log


@pytest.mark.parametrize("number", [3, STEP_EFFORT - 2, STEP_EFFORT - 1, STEP_EFFORT, 2 * STEP_EFFORT + 10])
def test_a_long_search_for_a_timestamp_is_done_in_steps(number: int) -> None:
    log = with_false_largest_timestamp(number)
    assert log.offset_for_timestamp(NOW_MS + 1000) is None
    append(log, batch("c", timestamp=NOW_MS + 1000))
    steps = list(first_at_or_after(log, NOW_MS + 1000))
    assert number // STEP_EFFORT <= len(steps) - 1 <= number // STEP_EFFORT + 1
    assert log.offset_for_timestamp(NOW_MS + 1000) == (NOW_MS + 1000, number + 1, 0)


def test_a_search_in_a_large_batch_is_done_in_steps(log: PartitionLog) -> None:
    append_with_header_as_it_is(log, batch(*["a"] * 3 * STEP_EFFORT, max_timestamp=NOW_MS + 1))
    append(log, batch("b", timestamp=NOW_MS + 1))
    assert len(list(first_at_or_after(log, NOW_MS + 1))) == 4
    assert log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 1, 3 * STEP_EFFORT, 0)


@pytest.mark.parametrize("steps_before", range(1, 4))
def test_a_search_goes_on_where_it_was_when_segments_are_removed_meanwhile(steps_before: int) -> None:
    log = with_false_largest_timestamp(2 * STEP_EFFORT)
    log.roll(NOW_MS)
    append(log, batch("c", timestamp=NOW_MS + 1000))
    log.roll(NOW_MS)
    for segment in list(log.segments)[:-1]:
        segment.open_on_demand()  # As after a checkpoint: a file that was removed cannot be read any more.
    steps = first_at_or_after(log, NOW_MS + 1000)
    for _ in range(steps_before):
        next(steps)
    log.delete_records_before(log.segments[1].base_offset)
    list(below_start_steps(log))
    assert at_once(steps) == (NOW_MS + 1000, 2 * STEP_EFFORT + 1, 0)


def test_an_empty_log_has_no_timestamps(log: PartitionLog) -> None:
    assert (log.offset_for_timestamp(0), log.largest_timestamp()) == (None, None)


# Removing


def test_scenario_9_deleted_records_leave_their_producer_known(log: PartitionLog) -> None:
    append(log, produced(0, "a", "b"))
    assert log.delete_records_before(2) == 2
    assert append(log, produced(2)).base_offset == 2
    assert append(log, produced(0, "a", "b")).duplicate


def test_records_are_deleted_up_to_the_high_watermark_only(log: PartitionLog) -> None:
    append(log, batch("a"))
    for offset in (-1, 2):
        with pytest.raises(KafkaError) as caught:
            log.delete_records_before(offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_retention_by_size_removes_whole_segments_from_the_start() -> None:
    config = replace(SMALL_SEGMENTS, retention_bytes=700)
    log = open_log(VirtualDisk(), config=config)
    for number in range(40):
        append(log, batch(f"value {number}"))
    apply_retention(log, NOW_MS)
    assert log.size_bytes >= 700 > log.size_bytes - log.segments.first.size_bytes
    assert log.log_start_offset == log.segments.first.base_offset > 0
    assert values(log)[0][0] == log.log_start_offset


def test_retention_to_0_bytes_removes_the_active_segment_too_as_in_kafka() -> None:
    log = open_log(VirtualDisk(), config=replace(SMALL_SEGMENTS, retention_bytes=0))
    assert apply_retention(log, NOW_MS) == 0
    for number in range(10):
        append(log, batch(f"value {number}"))
    assert apply_retention(log, NOW_MS) > 1
    assert (log.size_bytes, log.log_start_offset, log.log_end_offset) == (0, 10, 10)
    assert apply_retention(log, NOW_MS) == 0


def test_retention_by_time_removes_the_active_segment_too_and_keeps_the_log_end() -> None:
    log = open_log(VirtualDisk(), config=replace(SMALL_SEGMENTS, retention_ms=1_000))
    for number in range(10):
        append(log, batch("a", timestamp=NOW_MS + number))
    assert apply_retention(log, NOW_MS + 1_009) > 0
    assert values(log) == [(9, b"a")] or log.log_start_offset > 0
    apply_retention(log, NOW_MS + 1_010)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (10, 10, 1)
    assert append(log, batch("next")).base_offset == 10


def test_retention_leaves_compacted_topics_alone() -> None:
    policy = frozenset({CleanupPolicy.COMPACT})
    log = open_log(
        VirtualDisk(), config=replace(SMALL_SEGMENTS, retention_ms=1, retention_bytes=1, cleanup_policy=policy)
    )
    for _ in range(10):
        append(log, batch("a"))
    assert apply_retention(log, NOW_MS + 10_000) == 0


def test_retention_removes_what_lies_before_the_log_start_whatever_the_policy() -> None:
    policy = frozenset({CleanupPolicy.COMPACT})
    log = open_log(VirtualDisk(), config=replace(SMALL_SEGMENTS, cleanup_policy=policy))
    for _ in range(20):
        append(log, batch("a"))
    log.delete_records_before(10)
    assert apply_retention(log, NOW_MS) > 0
    assert log.segments.first.base_offset <= 10 < log.segments[1].base_offset


@pytest.mark.parametrize("steps_before", range(4))
def test_the_removal_of_segments_does_not_touch_a_new_topic_in_the_folder_of_the_deleted_one(steps_before: int) -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=SMALL_SEGMENTS)
    for _ in range(20):
        append(log, batch("a"))
    log.delete_records_before(10)
    steps = below_start_steps(log)
    for _ in range(steps_before):
        next(steps)
    log.retire("the topic was deleted")
    disk.rename(FOLDER, "/data/deleted")
    new = open_log(disk, topic_id=UUID(int=8))
    append(new, batch("b"))

    list(steps)

    new.close()
    assert values(open_log(disk, topic_id=UUID(int=8))) == [(0, b"b")]


# A disk that refuses


def test_a_full_disk_refuses_the_batch_and_the_log_goes_on_once_there_is_room() -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    append(log, produced(0))
    disk.capacity_bytes = disk.used_bytes() + 10
    with pytest.raises(KafkaError) as caught:
        append(log, produced(1))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.capacity_bytes = None
    assert append(log, produced(1)).base_offset == 1
    assert values(open_log(disk)) == [(0, b"value"), (1, b"value")]


def test_scenario_67_a_disk_error_takes_the_partition_offline() -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    append(log, batch("a"))
    disk.fail(DiskFault(Operation.WRITE, "*.log", error=errno.EIO))
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            append(log, batch("b"))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline is not None
    with pytest.raises(KafkaError):
        log.read(0, 100, isolation=Isolation.READ_UNCOMMITTED)


def test_a_read_error_takes_the_partition_offline() -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    append(log, batch("a"))
    disk.fail(DiskFault(Operation.READ, "*.log", error=errno.EIO))
    with pytest.raises(KafkaError) as caught:
        log.read(0, 100, isolation=Isolation.READ_UNCOMMITTED)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline is not None
