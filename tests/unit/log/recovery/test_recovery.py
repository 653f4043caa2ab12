"""What a log is after a crash: scenarios 10 to 14.

The oracle is a replay: a fresh log to which the batches of the valid prefix are appended one by one.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.config import LogConfig
from semel.log.disk import read_file
from semel.log.durability.checkpointing import Checkpoint, checkpointed, prepare_checkpoint
from semel.log.durability.checkpointing import carry_out as carry_out_all
from semel.log.partition_log import PartitionLog
from semel.log.recovery.truncation import truncate_to
from semel.log.retention import apply_retention
from semel.log.segments.time_index import ENTRY_SIZE as TIME_INDEX_ENTRY_SIZE
from semel.testing.virtual.disk import VirtualDisk
from semel.wire.records import parse_header
from tests.logs import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    batches,
    committed_values,
    end_transaction,
    open_log,
    produced,
    read_all,
    values,
)

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=120)


def fill(log: PartitionLog) -> None:
    """Idempotent and transactional producers, an abort, a commit, a transaction that stays open, several segments."""
    append(log, produced(0, "a", "b", producer=1))
    append(log, produced(0, "txn 1", producer=2, transactional=True))
    append(log, batch("plain"))
    append(log, produced(2, "c", producer=1))
    end_transaction(log, committed=False, producer=2)
    append(log, produced(0, "txn 2", producer=3, transactional=True))
    append(log, produced(3, "d" * 100, producer=1))
    end_transaction(log, committed=True, producer=3)
    append(log, produced(1, "txn 3", producer=2, transactional=True))
    append(log, produced(4, "e", producer=1))
    append(log, batch("last"))


def state(log: PartitionLog) -> dict[str, Any]:
    """All that a reader or a producer could tell two logs apart by."""
    return {
        "end": log.log_end_offset,
        "stable": log.last_stable_offset,
        "bytes": read_all(log),
        "committed": committed_values(log),
        "producers": log.describe_producers(),
        "open": log.producers.open_transactions,
        "epochs": log.epochs.entries,
        "aborted": [entry for segment in log.segments for entry in segment.transaction_index],
        "largest": log.largest_timestamp(),
    }


def replayed(prefix: list[bytes]) -> dict[str, Any]:
    log = open_log(VirtualDisk(), config=CONFIG)
    for data in prefix:
        log.append_copied(memoryview(bytearray(data)), now_ms=0)
    log.recovered()
    return state(log)


def carry_out(disk: VirtualDisk, checkpoint: Checkpoint | None) -> int:
    """What the directory's worker does with a checkpoint. Returns the new recovery point."""
    assert checkpoint is not None
    assert carry_out_all(disk, "/data", [checkpoint]).failed == []
    checkpointed(checkpoint)
    return checkpoint.offset


def with_content(disk: VirtualDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, data)
    file.sync()
    file.close()


def filled(*, checkpoint_after: int | None = None) -> tuple[VirtualDisk, list[bytes], int]:
    """A disk with a filled log, its batches, and the recovery point (0 unless a checkpoint was made on the way)."""
    disk, recovery_point = VirtualDisk(), 0
    log = open_log(disk, config=CONFIG)
    fill(log)
    if checkpoint_after is not None:
        for _ in range(checkpoint_after):
            append(log, batch("more"))
        recovery_point = carry_out(disk, prepare_checkpoint(log))
        append(log, produced(5, "f", producer=1))
        end_transaction(log, committed=False, producer=2)
        append(log, produced(0, "g", producer=9))
    # The indexes as a crash finds them: partly written, beyond the recovery point too.
    for segment in log.segments:
        for write in segment.index_writes():
            write.carry_out(disk, sync=False)
    log.snapshots.write_at_roll(log.log_end_offset, log.producers)
    data = [data for data, _ in batches(read_all(log))]
    return disk, data, recovery_point


def test_a_log_that_was_not_closed_comes_back_as_it_was() -> None:
    disk, data, _ = filled()
    assert state(open_log(disk, config=CONFIG)) == replayed(data)


@pytest.mark.parametrize("content", [b"", b"\x00", b"garbage" * 20, bytes(100)])
def test_scenario_11_a_snapshot_that_is_no_snapshot_is_passed_over(content: bytes) -> None:
    disk, data, recovery_point = filled(checkpoint_after=0)
    for name in [name for name in disk.list(FOLDER) if name.endswith(".snapshot")]:
        crashed = disk.copy()
        with_content(crashed, f"{FOLDER}/{name}", content)
        assert state(open_log(crashed, config=CONFIG, recovery_point=recovery_point)) == replayed(data)


def test_scenario_11_a_snapshot_from_beyond_the_log_end_is_removed() -> None:
    disk, data, recovery_point = filled(checkpoint_after=0)
    newest = max(name for name in disk.list(FOLDER) if name.endswith(".snapshot"))
    beyond = f"{FOLDER}/{10_000:020d}.snapshot"
    with_content(disk, beyond, read_file(disk, f"{FOLDER}/{newest}"))
    assert state(open_log(disk, config=CONFIG, recovery_point=recovery_point)) == replayed(data)
    assert not disk.exists(beyond)


def test_scenario_12_an_open_transaction_comes_back_from_a_snapshot() -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    append(log, batch("a"))
    append(log, produced(0, producer=2, transactional=True))
    recovery_point = carry_out(disk, prepare_checkpoint(log))
    log = open_log(disk, recovery_point=recovery_point)
    assert (log.high_watermark, log.last_stable_offset) == (2, 1)
    end_transaction(log, committed=True, producer=2)
    assert log.last_stable_offset == 3


def test_scenario_2_the_window_of_five_is_refilled_from_batch_headers() -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    for sequence in range(8):
        append(log, produced(sequence))
    recovery_point = carry_out(disk, prepare_checkpoint(log))
    log = open_log(disk, recovery_point=recovery_point)
    for sequence in range(3, 8):
        assert append(log, produced(sequence)).base_offset == sequence
    with pytest.raises(KafkaError) as caught:
        append(log, produced(2))
    assert caught.value.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert log.log_end_offset == 8


def test_nothing_below_the_recovery_point_is_read_again() -> None:
    disk, _, recovery_point = filled(checkpoint_after=0)
    log = open_log(disk, config=CONFIG, recovery_point=recovery_point)
    fully = open_log(disk.copy(), config=CONFIG)
    assert state(log) == state(fully)
    damaged = disk.copy()
    first = min(name for name in damaged.list(FOLDER) if name.endswith(".log"))
    damaged.open(f"{FOLDER}/{first}").write(70, b"\xff")
    assert open_log(damaged, config=CONFIG, recovery_point=recovery_point).log_end_offset == log.log_end_offset
    assert open_log(damaged, config=CONFIG).log_end_offset == 0


def three_synced_batches() -> tuple[VirtualDisk, PartitionLog, int]:
    """A log, and its recovery point behind them."""
    disk = VirtualDisk()
    log = open_log(disk)
    for number in range(3):
        append(log, produced(number, f"synced {number}", producer=1))
    return disk, log, carry_out(disk, prepare_checkpoint(log))


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_batch_that_lost_its_offset_to_a_power_cut_does_not_pass_for_an_older_one(has_snapshot: bool) -> None:
    """The first bytes of a write and the rest of it may lie in two sectors, and only the second one reach the disk.

    What is left is a batch with a good checksum and an offset of 0, right behind the recovery point.
    """
    disk, log, recovery_point = three_synced_batches()
    append(log, produced(0, "torn", producer=2))
    (segment,) = log.segments
    last, _ = batches(read_file(disk, segment.path(".log")))[-1]
    if not has_snapshot:
        disk.remove(f"{FOLDER}/{recovery_point:020}.snapshot")
    torn = read_file(disk, segment.path(".log"))[: -len(last)] + bytes(8) + last[8:]
    log.close()
    with_content(disk, segment.path(".log"), torn)
    recovered = open_log(disk, recovery_point=recovery_point)
    assert recovered.log_end_offset == recovery_point == 3
    assert [value for _, value in values(recovered)] == [b"synced 0", b"synced 1", b"synced 2"]
    assert [producer.producer_id for producer in recovered.describe_producers()] == [1]


def test_an_offset_that_compaction_has_emptied_below_the_recovery_point_is_not_given_again() -> None:
    """Nothing is left right below the recovery point, and the batch behind it is torn."""
    disk, log, recovery_point = three_synced_batches()
    append(log, produced(3, "torn", producer=1))
    (segment,) = log.segments
    first, second, _, last = (data for data, _ in batches(read_file(disk, segment.path(".log"))))
    log.close()
    with_content(disk, segment.path(".log"), first + second + last[:-1] + b"?")
    disk.remove(segment.path(".checksums"))  # Compaction would have written others.
    recovered = open_log(disk, recovery_point=recovery_point)
    assert [value for _, value in values(recovered)] == [b"synced 0", b"synced 1"]
    assert recovered.log_end_offset == recovery_point == 3


def test_an_index_of_batches_that_were_lost_is_not_believed_later() -> None:
    """The recovery point passes a segment whose index file an earlier process had written for other batches."""
    disk = VirtualDisk()
    log = open_log(disk, config=LogConfig(index_interval_bytes=1))
    for text in ("a" * 300, "b", "c" * 200, "d"):
        append(log, batch(text))
    for write in log.segments.active.index_writes():
        write.carry_out(disk, sync=True)
    truncate_file(disk, log.segments.active.path(".log"), 0)
    log = open_log(disk, config=LogConfig(index_interval_bytes=10_000))
    for text in ("e", "f", "g", "h"):
        append(log, batch(text))
    recovery_point = carry_out(disk, prepare_checkpoint(log))
    log = open_log(disk, recovery_point=recovery_point)
    assert values(log) == [(0, b"e"), (1, b"f"), (2, b"g"), (3, b"h")]


SMALL_INDEXES = LogConfig(index_interval_bytes=0, segment_index_bytes=10 * TIME_INDEX_ENTRY_SIZE)


def append_ascending(log: PartitionLog, end_offset: int) -> None:
    """Append batches, each later than the one before it: all but the first of a segment have an index entry."""
    for offset in range(log.log_end_offset, end_offset):
        append(log, batch("value", timestamp=NOW_MS + offset))


def test_a_full_index_closes_its_segment() -> None:
    """One entry less than there is room for: the last one is kept for the end of the segment."""
    log = open_log(VirtualDisk(), config=SMALL_INDEXES)
    append_ascending(log, 35)
    assert [segment.time_index.entries for segment in log.segments] == [9, 9, 9, 4]


@pytest.mark.parametrize("end_offset", [1, 5, 9, 10, 11, 20])
def test_index_entries_of_an_earlier_process_count_when_an_index_is_full(end_offset: int) -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=SMALL_INDEXES)
    append_ascending(log, end_offset)
    recovery_point = carry_out(disk, prepare_checkpoint(log))
    log = open_log(disk, config=SMALL_INDEXES, recovery_point=recovery_point)
    append_ascending(log, 35)
    assert max(segment.time_index.entries for segment in log.segments) == 9
    assert len(log.segments) == 4


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("end_offset", [1, 5, 9, 10, 11, 20])
def test_a_segment_that_is_active_again_after_a_truncation_closes_when_its_index_is_full(
    end_offset: int, restarts: bool
) -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=SMALL_INDEXES)
    append_ascending(log, 35)
    if restarts:
        log = open_log(disk, config=SMALL_INDEXES, recovery_point=carry_out(disk, prepare_checkpoint(log)))
    truncate_to(disk, log, end_offset)
    append_ascending(log, 35)
    assert max(segment.time_index.entries for segment in log.segments) == 9
    assert len(log.segments) == 4


def test_the_entry_that_closes_a_time_index_counts_if_the_segment_is_active_again() -> None:
    """Compaction may have left a hole at its end: a truncation there makes it active, and removes nothing of it."""
    config = LogConfig(segment_index_bytes=2 * TIME_INDEX_ENTRY_SIZE)
    log = open_log(VirtualDisk(), config=config)
    append(log, batch("value"))
    closed, header = log.segments.active, parse_header(batch("next"))
    assert closed.takes(header, config, config.segment_ms, NOW_MS)
    log.roll(NOW_MS)
    assert not closed.takes(header, config, config.segment_ms, NOW_MS)


def test_a_hole_between_segments_ends_the_log() -> None:
    disk, _, _ = filled()
    names = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    assert len(names) > 2
    second = int(names[1].removesuffix(".log"))
    disk.remove(f"{FOLDER}/{names[1]}")
    assert open_log(disk, config=CONFIG).log_end_offset == second


def test_a_log_emptied_by_retention_keeps_its_end_after_a_crash() -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=LogConfig(retention_ms=1))
    for _ in range(3):
        append(log, batch("a"))
    for folder in ("/", "/data", FOLDER):
        disk.sync_directory(folder)
    log.segments.active.file.sync()
    apply_retention(log, 10**15)
    disk.crash()
    assert open_log(disk).log_end_offset == 3


@pytest.mark.parametrize("seed", range(30))
def test_a_power_cut_leaves_a_prefix_of_what_was_written(seed: int) -> None:
    disk = VirtualDisk(Random(seed))
    log = open_log(disk, config=CONFIG)
    disk.sync_directory("/")
    disk.sync_directory("/data")
    disk.sync_directory(FOLDER)
    fill(log)
    data = [data for data, _ in batches(read_all(log))]
    disk.crash()
    log = open_log(disk, config=CONFIG)
    kept = [data for data, _ in batches(read_all(log))]
    assert kept == data[: len(kept)]
    assert state(log) == replayed(kept)


@pytest.mark.parametrize("seed", range(10))
def test_what_lies_below_the_recovery_point_survives_every_power_cut(seed: int) -> None:
    disk = VirtualDisk(Random(seed))
    log = open_log(disk, config=CONFIG)
    disk.sync_directory("/")
    disk.sync_directory("/data")
    fill(log)
    recovery_point = carry_out(disk, prepare_checkpoint(log))
    disk.sync_directory(FOLDER)
    before = state(log)
    for _ in range(3):
        append(log, batch("lost?"))
    disk.crash()
    log = open_log(disk, config=CONFIG, recovery_point=recovery_point)
    assert log.log_end_offset >= recovery_point
    assert read_all(log).startswith(before["bytes"])


def truncate_file(disk: VirtualDisk, path: str, size: int) -> None:
    file = disk.open(path)
    file.truncate(size)
    file.close()
