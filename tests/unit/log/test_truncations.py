"""Truncation of logs while the broker runs, and what a crash at each step of it leaves (scenario 61)."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.log.retention import below_start_steps
from semel.log.truncations import LOGS_PER_JOB
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.wire.records import iterate_headers, patch_offset_and_epoch
from tests.logs import NOW_MS, append, batch, batches, end_transaction, open_log, produced
from tests.unit.log.recovery.test_recovery import state
from tests.unit.log.test_directory import SYNCED
from tests.unit.log.test_stored_high_watermark import Replica

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=120)
LARGE = 1_000_000
FOLDERS = "semel-folders"


class Follower(Replica):
    """A broker whose log of ``orders`` was led by itself under epoch 1 and must be cut to what the new leader has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.topics["orders"] = replace(SYNCED, config=SMALL, replicated=frozenset(range(1000)))

    def truncate(self, offset: int, *, restart: bool = False) -> dict[PartitionLog, Exception]:
        told: list[dict[PartitionLog, Exception]] = []
        soon = self.directory.restart_soon if restart else self.directory.truncate_soon
        soon({self.log("orders"): offset}, told.append)
        self.work()
        (failed,) = told
        return failed

    def work(self) -> None:
        """Do all that waits for the loop or a worker."""
        self.turn()
        while any(worker.jobs for worker in self.workers.values()):
            for worker in self.workers.values():
                while worker.jobs:
                    worker.step()
            self.turn()


def all_bytes(log: PartitionLog) -> list[bytes]:
    """The batches of the whole log, above the high watermark too."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read_copy(offset, LARGE).records
        found += [part for part, _ in batches(data)]
        offset = list(iterate_headers(data))[-1][1].next_offset
    return found


def whole_state(log: PartitionLog) -> dict[str, object]:
    """As if everything was confirmed: it can be compared with a replay."""
    log.advance_high_watermark(log.log_end_offset)
    return state(log)


def replayed(data: list[bytes], *, start: int = 0) -> dict[str, object]:
    log = open_log(VirtualDisk(), config=SMALL, log_start_offset=start)
    for one in data:
        log.append_copied(memoryview(one), now_ms=NOW_MS)
    return state(log)


def fill(log: PartitionLog) -> None:
    """Two epochs; transactions that are committed, aborted and open at each of their ends; several segments."""
    log.set_leader_epoch(1)
    append(log, produced(0, "a", "b", producer=1))
    append(log, produced(0, "aborted", producer=2, transactional=True))
    append(log, produced(0, "committed", producer=3, transactional=True))
    end_transaction(log, committed=False, producer=2)
    append(log, produced(1, "open", producer=2, transactional=True))
    append(log, produced(2, "c" * 150, producer=1))
    log.set_leader_epoch(4)
    end_transaction(log, committed=True, producer=3)
    append(log, produced(3, "d" * 150, producer=1))
    append(log, produced(0, "late", producer=9))
    end_transaction(log, committed=False, producer=2)
    append(log, produced(4, "e" * 150, producer=1))
    append(log, produced(1, "open again", producer=3, transactional=True))
    append(log, batch("last"))


def filled(*, checkpoint: bool, high_watermark: int) -> Follower:
    follower = Follower()
    log = follower.create("orders")
    fill(log)
    follower.commit()
    log.advance_high_watermark(high_watermark)
    if checkpoint:
        follower.checkpoint()
    return follower


ENDS = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
"""Where the batches of ``fill`` begin."""


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("offset", ENDS)
def test_a_truncated_log_is_the_replay_of_what_is_left__scenario_61(offset: int, checkpoint: bool) -> None:
    follower = filled(checkpoint=checkpoint, high_watermark=3)
    log = follower.log("orders")
    expected = [part for part in all_bytes(log) if next(iterate_headers(part))[1].base_offset < offset]
    assert follower.truncate(offset) == {}
    assert (log.log_end_offset, log.high_watermark, log.suspended) == (offset, min(3, offset), None)
    assert whole_state(log) == replayed(expected)
    follower.restart(power_cut=True)
    log = follower.log("orders")
    assert log.high_watermark <= min(3, offset)
    assert whole_state(log) == replayed(expected)


@pytest.mark.parametrize("offset", [14, 15, 16, 17])
def test_a_log_that_is_truncated_again_uses_no_snapshot_of_the_history_that_was_cut(offset: int) -> None:
    """A checkpoint leaves a snapshot at the log end; then the log is cut below it and grows past it again."""
    follower = filled(checkpoint=True, high_watermark=3)
    log = follower.log("orders")
    assert log.recovery_point == 14
    assert follower.truncate(6) == {}
    log.set_leader_epoch(7)
    for number in range(12):
        append(log, produced(number, "another", producer=77))
    follower.commit()
    log.advance_high_watermark(offset)
    kept = [part for part in all_bytes(log) if next(iterate_headers(part))[1].base_offset < offset]
    assert follower.truncate(offset) == {}
    assert whole_state(log) == replayed(kept)


def test_what_was_confirmed_and_cut_is_not_confirmed_after_a_crash() -> None:
    """After an unclean election: other records have come to these offsets."""
    follower = filled(checkpoint=True, high_watermark=9)
    log = follower.log("orders")
    assert follower.truncate(6) == {}
    log.set_leader_epoch(7)
    for _ in range(5):
        append(log, batch("not confirmed"))
    follower.commit()
    follower.restart(power_cut=True)
    log = follower.log("orders")
    assert (log.high_watermark, log.log_end_offset) == (6, 11)


@pytest.mark.parametrize("restart", [False, True])
def test_what_was_compacted_and_cut_does_not_count_as_compacted_when_the_log_has_grown_again(restart: bool) -> None:
    follower = filled(checkpoint=True, high_watermark=12)
    log = follower.log("orders")
    follower.directory.cleaner_offsets.reached(log, 10)
    follower.directory.cleaner_offsets.write()
    assert follower.truncate(6, restart=restart) == {}
    log.set_leader_epoch(7)
    for number in range(12):
        append(log, produced(number, "another", producer=77))
    follower.commit()
    follower.checkpoint()
    expected = 0 if restart else 6
    assert follower.directory.cleaner_offsets.of(log) == expected
    follower.restart(power_cut=True)
    assert follower.directory.cleaner_offsets.of(follower.log("orders")) == expected


def test_an_offset_within_a_batch_cuts_before_it() -> None:
    follower = filled(checkpoint=False, high_watermark=0)
    assert follower.truncate(1) == {}
    assert follower.log("orders").log_end_offset == 0
    follower.restart(power_cut=True)
    assert follower.log("orders").log_end_offset == 0


@pytest.mark.parametrize("steps_before", [1, 2, 3])
def test_a_removal_of_segments_that_is_under_way_takes_nothing_from_a_log_that_begins_there_again(
    steps_before: int,
) -> None:
    follower = filled(checkpoint=True, high_watermark=14)
    log = follower.log("orders")
    _, second, third, *_ = [segment.base_offset for segment in log.segments]
    log.delete_records_before(third)
    steps = below_start_steps(log)
    for _ in range(steps_before):
        next(steps)
    assert follower.truncate(second, restart=True) == {}
    list(steps)
    (name,) = [name for name in follower.disk.list(log.folder) if name.endswith(".log")]
    assert (name, log.segments.active.file.size()) == (f"{second:020d}.log", 0)
    append(log, batch("begins again"))
    follower.commit()
    follower.checkpoint()
    kept = all_bytes(log)
    assert len(kept) == 1
    follower.restart(power_cut=True)
    assert follower.directory.unavailable == {}
    log = follower.log("orders")
    assert (log.log_start_offset, log.log_end_offset, all_bytes(log)) == (second, second + 1, kept)


def placed(base_offset: int, *values: str) -> memoryview:
    """A batch as a leader sends it."""
    copied = batch(*values)
    patch_offset_and_epoch(copied, 0, base_offset, 1)
    return copied


@pytest.mark.parametrize("offset", [8, 9])
@pytest.mark.parametrize("has_index", [False, True])
def test_a_log_that_is_truncated_behind_a_hole_ends_with_the_batch_before_the_hole(
    offset: int, has_index: bool
) -> None:
    """Otherwise the next start would miss the offsets of the hole, which compaction has left."""
    follower = Follower()
    log = follower.create("orders")
    value = "a" * 200 if has_index else "a"
    for base_offset in (0, 3, 9):
        log.append_copied(placed(base_offset, value), now_ms=NOW_MS)
        follower.commit()
    log.advance_high_watermark(10)
    follower.checkpoint()

    assert follower.truncate(offset) == {}

    assert (log.log_end_offset, log.high_watermark) == (4, 4)
    log.append_copied(placed(9, "b"), now_ms=NOW_MS)
    follower.commit()
    follower.restart(power_cut=True)
    assert follower.directory.unavailable == {}
    assert follower.log("orders").log_end_offset == 10


@pytest.mark.parametrize(("start", "offset"), [(1, 2), (2, 2), (5, 9), (9, 9)])
def test_a_log_of_which_nothing_is_left_above_its_start_is_empty_there(start: int, offset: int) -> None:
    follower = Follower()
    log = follower.create("orders")
    for base_offset, count in ((0, 4), (9, 2)):
        log.append_copied(placed(base_offset, *["a"] * count), now_ms=NOW_MS)
        follower.commit()
    log.advance_high_watermark(11)
    log.delete_records_before(start)
    follower.checkpoint()

    assert follower.truncate(offset) == {}

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (start, start, start)
    follower.restart(power_cut=True)
    assert follower.directory.unavailable == {}
    assert (follower.log("orders").log_start_offset, follower.log("orders").log_end_offset) == (start, start)


def test_an_offset_at_the_end_cuts_nothing_but_an_epoch_without_a_batch() -> None:
    follower = filled(checkpoint=False, high_watermark=0)
    log = follower.log("orders")
    end, before = log.log_end_offset, follower.disk.statistics.changes
    log.set_leader_epoch(6)
    assert follower.truncate(end + 5) == {}
    assert (log.log_end_offset, log.epochs.latest, log.suspended) == (end, 4, None)
    assert follower.disk.statistics.changes == before


def test_nothing_is_appended_and_the_loop_waits_for_no_disk_meanwhile() -> None:
    follower = filled(checkpoint=False, high_watermark=0)
    log = follower.log("orders")
    before = follower.disk.statistics.changes
    follower.directory.truncate_soon({log: 6}, lambda _: None)
    assert follower.disk.statistics.changes == before
    with pytest.raises(KafkaError) as caught:
        append(log, batch("refused"))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    follower.work()
    append(log, batch("taken"))
    assert log.log_end_offset == 7


def test_what_is_under_way_in_a_group_is_synced_first() -> None:
    """Else the journal would get bytes that are cut while they are read."""
    follower = filled(checkpoint=False, high_watermark=0)
    log = follower.log("orders")
    append(log, produced(5, "in a group that runs", producer=1))
    follower.turn()
    append(log, produced(6, "in the next group", producer=1))
    end = log.log_end_offset
    follower.directory.truncate_soon({log: end - 1}, lambda _: None)
    assert follower.workers[FOLDERS].jobs == []
    follower.workers["semel-commit"].step()
    assert follower.workers[FOLDERS].jobs == []
    follower.workers["semel-commit"].step()
    assert log.durable_offset == end
    follower.work()
    assert (log.log_end_offset, log.durable_offset) == (end - 1, end - 1)
    follower.restart(power_cut=True)
    assert follower.log("orders").log_end_offset == end - 1


def test_a_checkpoint_that_runs_is_waited_for_and_none_begins_with_the_log() -> None:
    follower = filled(checkpoint=False, high_watermark=0)
    log = follower.log("orders")
    checkpointing = follower.workers["semel-checkpoint"]
    follower.directory.checkpoint()
    follower.directory.truncate_soon({log: 6}, lambda _: None)
    checkpointing.work()
    assert follower.workers[FOLDERS].jobs == []
    checkpointing.tell()
    follower.directory.checkpoint()
    checkpointing.step()
    follower.work()
    assert (log.recovery_point, log.log_end_offset) == (6, 6)
    follower.restart(power_cut=True)
    assert follower.directory.unavailable == {}
    assert follower.log("orders").log_end_offset == 6


def test_a_log_that_was_deleted_meanwhile_is_reported() -> None:
    follower = filled(checkpoint=False, high_watermark=0)
    log = follower.log("orders")
    failed: list[dict[PartitionLog, Exception]] = []
    follower.directory.truncate_soon({log: 6}, failed.append)
    follower.directory.change(lambda _: None, deleted=[log.topic_partition])
    follower.work()
    assert list(failed[0]) == [log]


def test_many_logs_are_truncated_with_few_syncs() -> None:
    follower = Follower()
    logs = [follower.create("orders", number) for number in range(LOGS_PER_JOB)]
    for log in logs:
        log.set_leader_epoch(1)
        append(log, batch("a"))
        append(log, batch("b"))
    follower.commit()
    follower.checkpoint()
    for log in logs:
        append(log, batch("c"))
    follower.commit()
    before = replace(follower.disk.statistics)
    follower.directory.truncate_soon(dict.fromkeys(logs, 2), lambda _: None)
    follower.work()
    after = follower.disk.statistics
    assert [log.log_end_offset for log in logs] == [2] * len(logs)
    assert (after.syncs - before.syncs, after.directory_syncs - before.directory_syncs) == (2, 0)
    follower.restart(power_cut=True)
    assert [log.log_end_offset for log in follower.directory.logs.values()] == [2] * len(logs)


# Failures


@pytest.mark.parametrize("path", ["*replication-offset-checkpoint*", "*partition.checkpoint*", "*journal.*"])
def test_a_truncation_that_finds_no_room_leaves_the_log_as_it_was(path: str) -> None:
    follower = filled(checkpoint=True, high_watermark=9)
    log = follower.log("orders")
    before = (state(log), log.high_watermark)
    follower.disk.fail(DiskFault(Operation.WRITE, path, error=errno.ENOSPC))
    follower.disk.fail(DiskFault(Operation.CREATE, path, error=errno.ENOSPC))
    failed = follower.truncate(6)
    assert list(failed) == [log]
    assert (state(log), log.high_watermark, log.offline, log.suspended) == (*before, None, None)
    follower.disk.repair()
    assert follower.truncate(6) == {}
    assert log.log_end_offset == 6


@pytest.mark.parametrize("operation", [Operation.TRUNCATE, Operation.SYNC, Operation.REMOVE])
def test_a_log_whose_cut_fails_goes_offline_and_a_start_makes_it_sound(operation: Operation) -> None:
    follower = filled(checkpoint=True, high_watermark=3)
    log = follower.log("orders")
    old = all_bytes(log)
    follower.disk.fail(DiskFault(operation, "*.log", error=errno.EIO))
    failed = follower.truncate(6)
    assert list(failed) == [log]
    assert log.offline is not None
    follower.disk.repair()
    follower.restart(power_cut=True)
    log = follower.log("orders")
    kept = all_bytes(log)
    assert kept == old[: len(kept)]
    assert log.log_end_offset >= 6
