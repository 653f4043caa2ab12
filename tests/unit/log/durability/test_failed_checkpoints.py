"""A checkpoint or a group commit that fails, at any step, stops nothing for ever and loses nothing."""

from __future__ import annotations

import errno
import gc
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

import pytest

from semel.errors import KafkaError, StorageError
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.disk import read_file
from semel.log.durability import checkpoints
from semel.log.durability.checkpointer import CHECKPOINT_INTERVAL_MS
from semel.log.durability.checkpoints import MetaProperties
from semel.log.partition_log import PartitionLog
from semel.log.segments.offset_index import OffsetIndex
from semel.log.segments.time_index import TimeIndex
from semel.log.topic_logs import TopicLogs
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.page_cache import Unsynced
from semel.types import TopicPartition
from tests.logs import NOW_MS, StepWorker, append, batch, end_transaction, produced, values, visible

JOURNAL_BYTES = 4000


@dataclass
class Machine:
    """A directory of three partitions with a small journal, whose workers work when told."""

    disk: VirtualDisk = field(default_factory=VirtualDisk)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS))
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    workers: dict[str, StepWorker] = field(default_factory=dict)
    config: LogConfig = field(default_factory=lambda: LogConfig(index_interval_bytes=1))

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.workers.clear()
        self.directory = LogDirectory(
            "/data",
            disk=self.disk,
            clock=self.clock,
            loop=self.loop,
            make_worker=lambda name: self.workers.setdefault(name, StepWorker()),
            journal_size_bytes=JOURNAL_BYTES,
        )
        self.directory.acquire(MetaProperties("cluster", 1))
        self.directory.load({"orders": TopicLogs(UUID(int=1), self.config, synced=True, partitions=(0, 1, 2))})
        for log in self.directory.logs.values():
            log.on_durable = visible

    @property
    def logs(self) -> list[PartitionLog]:
        return [self.directory.logs[TopicPartition("orders", number)] for number in range(3)]

    def produce(self, text: str = "x" * 100) -> None:
        """One record to each partition, made durable."""
        for log in self.logs:
            if log.offline is None:
                append(log, batch(text))
        self.commit()

    def commit(self) -> None:
        self.loop.run_until_complete(_nothing())
        while self.workers["semel-commit"].jobs:
            self.workers["semel-commit"].step()

    def checkpoint(self) -> None:
        self.directory.checkpoint()
        self.work()

    def work(self) -> None:
        while self.workers["semel-checkpoint"].jobs:
            self.workers["semel-checkpoint"].step()

    def delete(self, name: TopicPartition) -> None:
        self.directory.change(lambda _: None, deleted=[name])
        self.workers["semel-folders"].step()

    def a_second_passes(self, seconds: float = 1.0) -> None:
        """What maintenance does."""
        self.clock.advance(int(seconds * 1000))
        self.directory.checkpoint_if_due()
        self.work()

    def restart(self, *, power_cut: bool = True) -> None:
        self.directory.kill()
        self.disk.crash() if power_cut else self.disk.kill()
        self.disk.repair()
        self.open()

    def journal_bytes(self) -> int:
        return sum(self.disk.open(f"/data/journal.{number}").size() for number in range(2))

    def ends(self) -> list[int]:
        return [log.log_end_offset for log in self.logs]

    def points(self) -> list[int]:
        return [log.recovery_point for log in self.logs]


async def _nothing() -> None:
    return None


FAULTS = [
    DiskFault(Operation.OPEN, "*", errno.EMFILE, times=None),
    DiskFault(Operation.OPEN, "*.index", errno.EMFILE, times=None),
    DiskFault(Operation.CREATE, "*.timeindex", errno.ENOSPC, times=None),
    DiskFault(Operation.WRITE, "*index", errno.ENOSPC, times=None),
    DiskFault(Operation.WRITE, "*.snapshot.tmp", errno.ENOSPC, times=None),
    DiskFault(Operation.SYNC, "*.snapshot.tmp", errno.EIO, times=None),
    DiskFault(Operation.RENAME, "*.snapshot.tmp", errno.EIO, times=None),
    DiskFault(Operation.WRITE, "*leader-epoch-checkpoint.tmp", errno.ENOSPC, times=None),
    DiskFault(Operation.WRITE, "*recovery-point-offset-checkpoint.tmp", errno.ENOSPC, times=None),
    DiskFault(Operation.CREATE, "*replication-offset-checkpoint.tmp", errno.ENOSPC, times=None),
]


def test_the_first_checkpoint_comes_after_the_interval_too() -> None:
    machine = Machine()
    machine.produce()
    machine.a_second_passes(CHECKPOINT_INTERVAL_MS / 1000 - 1)
    assert machine.points() == [0, 0, 0]
    machine.a_second_passes()
    assert machine.points() == machine.ends()


def test_the_worker_removes_the_snapshots_that_a_checkpoint_has_replaced() -> None:
    """On the loop, the removals for very many logs would take seconds."""
    machine = Machine()
    machine.produce()
    machine.checkpoint()
    machine.produce()
    machine.directory.checkpoint()
    machine.workers["semel-checkpoint"].work()  # The loop is not told yet.

    left = [[name for name in machine.disk.list(log.folder) if name.endswith(".snapshot")] for log in machine.logs]

    assert left == [[f"{2:020d}.snapshot"]] * 3


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.operation.value} {fault.path}")
def test_a_checkpoint_that_fails_anywhere_is_tried_again_and_producing_goes_on(fault: DiskFault) -> None:
    machine = Machine()
    for _ in range(3):
        machine.produce()
    machine.disk.fail(DiskFault(fault.operation, fault.path, fault.error, times=None))
    machine.checkpoint()
    assert machine.points() == [0, 0, 0]
    machine.produce()
    assert [log.high_watermark for log in machine.logs] == [4, 4, 4]
    machine.disk.repair()
    machine.a_second_passes()
    assert machine.points() == [4, 4, 4]
    assert [log.offline for log in machine.logs] == [None] * 3


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.operation.value} {fault.path}")
@pytest.mark.parametrize("healed", [False, True])
def test_what_a_failed_checkpoint_leaves_behind_is_what_was_acknowledged(fault: DiskFault, healed: bool) -> None:
    """A power cut after the failure, or after the checkpoint that followed it; index entries and epochs included."""
    machine = Machine()
    log = machine.logs[0]
    for sequence in range(6):
        append(log, produced(sequence, f"value {sequence}", transactional=True))
    end_transaction(log, committed=False)
    machine.commit()
    machine.disk.fail(DiskFault(fault.operation, fault.path, fault.error, times=None))
    machine.checkpoint()
    if healed:
        machine.disk.repair()
        append(log, batch("behind"))
        machine.commit()
        machine.a_second_passes()
        assert log.recovery_point == 8
        active = log.segments.active
        assert list(OffsetIndex.load(read_file(machine.disk, active.path(".index")), 0)) == list(active.offset_index)
        assert list(TimeIndex.load(read_file(machine.disk, active.path(".timeindex")), 0)) == list(active.time_index)
        assert (
            checkpoints.read_leader_epochs(machine.disk, f"{log.folder}/leader-epoch-checkpoint") == log.epochs.entries
        )
    expected, aborted = values(log), list(log.segments.active.transaction_index)
    index, epochs = list(log.segments.active.offset_index), log.epochs.entries
    machine.restart()
    log = machine.logs[0]
    assert log.offline is None
    assert values(log) == expected
    assert list(log.segments.active.transaction_index) == aborted
    assert list(log.segments.active.offset_index) == index
    assert log.epochs.entries == epochs


def test_one_partition_whose_indexes_cannot_be_written_does_not_keep_the_others_back() -> None:
    machine = Machine()
    machine.produce()
    machine.disk.fail(DiskFault(Operation.WRITE, "*/orders-1/*", errno.ENOSPC, times=None))
    machine.checkpoint()
    assert machine.points() == [1, 0, 1]


def test_a_failed_checkpoint_waits_longer_each_time_and_is_tried_for_as_long_as_it_takes() -> None:
    machine = Machine()
    machine.produce()
    machine.disk.fail(DiskFault(Operation.OPEN, "*.snapshot.tmp", errno.EMFILE, times=None))
    machine.checkpoint()
    tried = []
    for second in range(200):
        before = machine.disk.statistics.syncs
        machine.a_second_passes()
        if machine.disk.statistics.syncs > before:
            tried.append(second)
    assert [later - earlier for earlier, later in pairwise(tried)][:8] == [2, 4, 8, 16, 30, 30, 30, 30]
    machine.disk.repair()
    machine.a_second_passes(30)
    assert machine.points() == [1, 1, 1]


def test_a_checkpoint_opens_its_files_one_after_the_other() -> None:
    """However many partitions there are, it needs two descriptors, so that it never runs out of them."""
    machine = Machine()
    open_before = machine.disk.statistics.open_files
    machine.produce()
    machine.disk.statistics.open_files_max = open_before
    machine.checkpoint()
    assert machine.points() == [1, 1, 1]
    assert machine.disk.statistics.open_files_max - open_before <= 2


# The journal


def test_the_journal_stops_growing_while_checkpoints_fail_and_is_used_again_after_them() -> None:
    machine = Machine()
    machine.disk.fail(DiskFault(Operation.WRITE, "*.snapshot.tmp", errno.ENOSPC, times=None))
    for _ in range(200):
        machine.produce("x" * 5000)
        machine.a_second_passes(0.1)
    assert machine.journal_bytes() < 1_000_000  # Of three million that were written.
    assert machine.ends() == [log.high_watermark for log in machine.logs] == [200] * 3
    machine.disk.repair()
    machine.a_second_passes(30)
    machine.produce()
    machine.work()
    before = machine.disk.statistics.syncs
    machine.produce()
    assert machine.disk.statistics.syncs == before + 1
    machine.restart()
    assert machine.ends() == [202] * 3


def test_a_journal_without_room_is_passed_over_and_used_again_when_there_is_room() -> None:
    machine = Machine()
    machine.disk.fail(DiskFault(Operation.WRITE, "*/journal.*", errno.ENOSPC, times=None))
    machine.produce()
    assert [log.high_watermark for log in machine.logs] == [1, 1, 1]
    machine.disk.repair()
    before = machine.disk.statistics.syncs
    machine.produce()
    assert machine.disk.statistics.syncs == before + 1
    machine.restart()
    assert machine.ends() == [2, 2, 2]


def test_a_checkpoint_that_was_prepared_before_the_journal_switched_does_not_release_it() -> None:
    """What was written between the two is in the journal only."""
    machine = Machine()
    machine.produce()
    machine.directory.checkpoint()
    machine.workers["semel-checkpoint"].work()
    for _ in range(12):
        machine.produce()  # The journal is full, and the other file is begun.
    machine.workers["semel-checkpoint"].tell()
    assert machine.points() == [1, 1, 1]
    for _ in range(5):
        machine.produce()  # Enough to come back to the first file, if it were free.
    machine.directory.kill()
    machine.disk.crash(Unsynced.LOST)
    machine.open()
    assert machine.ends() == [18, 18, 18]


def test_the_journal_is_kept_for_a_partition_that_went_offline_however_many_checkpoints_follow() -> None:
    machine = Machine()
    machine.produce()
    machine.disk.fail(DiskFault(Operation.SYNC, "*/orders-0/*.log", errno.EIO, times=None))
    machine.checkpoint()
    assert machine.logs[0].offline is not None
    for _ in range(100):
        machine.produce()
        machine.a_second_passes(0.1)
    machine.restart()
    assert machine.ends() == [1, 101, 101]


def test_a_checkpoint_without_a_log_that_is_being_truncated_does_not_release_the_journal() -> None:
    """What this log keeps may be in the journal only, and the checkpoint does not sync it."""
    machine = Machine(config=LogConfig(index_interval_bytes=1, segment_bytes=400))
    for _ in range(5):
        machine.produce()
    truncated, other, _ = machine.logs
    assert len(truncated.segments) == 3
    machine.directory.truncate_soon({truncated: 4}, lambda failed: None)
    for _ in range(30):  # The journal is full, the other file is begun, and checkpoints follow.
        append(other, batch("x" * 100))
        machine.commit()
        machine.work()
    machine.workers["semel-folders"].step()
    assert (truncated.log_end_offset, truncated.recovery_point, other.recovery_point > 0) == (4, 0, True)
    machine.directory.kill()
    machine.disk.crash(Unsynced.LOST)
    machine.open()
    assert machine.ends() == [4, 35, 5]


def test_the_journal_is_released_after_a_truncation() -> None:
    machine = Machine()
    machine.produce()
    truncated, other, _ = machine.logs
    machine.directory.truncate_soon({truncated: 0}, lambda failed: None)
    for _ in range(100):
        append(other, batch("x" * 100))
        machine.commit()
        machine.a_second_passes(0.1)
    machine.workers["semel-folders"].step()
    sizes = []
    for _ in range(200):
        machine.produce()
        machine.a_second_passes(0.1)
        sizes.append(machine.journal_bytes())
    assert sizes[-1] == sizes[20]


# Group commit


def test_a_group_whose_outcome_is_not_known_takes_its_partitions_offline_and_the_next_one_is_committed() -> None:
    machine = Machine()
    one, two, _ = machine.logs
    append(one, batch("a"))
    machine.loop.run_until_complete(_nothing())
    machine.workers["semel-commit"].error = MemoryError("no memory")
    machine.workers["semel-commit"].step()
    assert "no memory" in (one.offline or "")
    append(two, batch("b"))
    machine.commit()
    assert two.high_watermark == 1


def test_a_listener_that_fails_keeps_the_others_from_nothing() -> None:
    machine = Machine()

    def broken(log: PartitionLog) -> None:
        raise RuntimeError("a bug")

    machine.logs[0].on_durable = broken
    machine.produce()
    machine.produce()
    assert [log.high_watermark for log in machine.logs] == [0, 2, 2]


def test_a_direct_sync_that_can_open_nothing_goes_through_the_journal() -> None:
    machine = Machine()
    machine.disk.fail(DiskFault(Operation.OPEN, "*", errno.EMFILE, times=None))
    append(machine.logs[0], batch(b"x" * 500_000))
    machine.commit()
    assert (machine.logs[0].offline, machine.logs[0].high_watermark) == (None, 1)
    machine.restart()
    assert machine.ends() == [1, 0, 0]


# Starting, making, deleting, rolling without room


@pytest.mark.parametrize("path", ["*.snapshot.tmp", "*recovery-point-offset-checkpoint.tmp"])
def test_a_start_without_room_for_a_checkpoint_makes_the_records_durable_before_the_journal_is_overwritten(
    path: str,
) -> None:
    machine = Machine()
    machine.produce("in the journal")
    machine.disk.fail(DiskFault(Operation.WRITE, path, errno.ENOSPC, times=None))
    for text in ("into its other file", "over it"):
        machine.directory.kill()
        machine.disk.crash(Unsynced.LOST)
        machine.open()
        machine.produce(text)
    machine.directory.kill()
    machine.disk.crash(Unsynced.LOST)
    machine.open()
    written = [(0, b"in the journal"), (1, b"into its other file"), (2, b"over it")]
    assert [values(log) for log in machine.logs] == [written] * 3
    machine.disk.repair()
    machine.a_second_passes(30)
    assert machine.points() == [3, 3, 3]


def test_a_start_without_descriptors_for_its_records_is_refused_and_the_next_one_finds_everything() -> None:
    machine = Machine()
    machine.produce()
    machine.directory.kill()
    machine.disk.crash()
    machine.disk.fail(DiskFault(Operation.OPEN, "*/orders-1/partition.metadata", errno.EMFILE, times=None, skip=1))
    with pytest.raises(StorageError, match="make room and start again"):
        machine.open()
    machine.restart()
    assert machine.ends() == [1, 1, 1]


def test_a_log_whose_sync_failed_is_offline_also_if_the_files_beside_the_logs_could_not_be_written() -> None:
    machine = Machine()
    machine.produce()
    machine.disk.fail(DiskFault(Operation.SYNC, "*/orders-1/*.log", errno.EIO))
    machine.disk.fail(DiskFault(Operation.WRITE, "*recovery-point-offset-checkpoint.tmp", errno.ENOSPC, times=None))
    machine.checkpoint()
    assert [log.offline is not None for log in machine.logs] == [False, True, False]


def test_a_checkpoint_that_moves_no_log_and_has_no_room_for_its_files_is_told(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.produce()
    machine.checkpoint()
    machine.disk.fail(DiskFault(Operation.WRITE, "*recovery-point-offset-checkpoint.tmp", errno.ENOSPC, times=None))
    machine.checkpoint()
    assert [record.getMessage().split(": [")[0] for record in caplog.records] == [
        "/data: a write to the checkpoint files was refused"
    ]


def test_the_recovery_point_of_a_deleted_topic_is_taken_back_even_if_the_first_attempt_fails() -> None:
    machine = Machine()
    machine.produce()
    machine.checkpoint()
    name = TopicPartition("orders", 0)
    # One attempt is made when it is deleted, the next one when its successor is made.
    machine.disk.fail(DiskFault(Operation.WRITE, "*recovery-point-offset-checkpoint.tmp", errno.ENOSPC, times=2))
    machine.delete(name)
    topic = TopicLogs(UUID(int=1), machine.config, synced=True)
    with pytest.raises(OSError, match="No space"):
        machine.directory.create(name, topic)
    machine.directory.create(name, topic)
    assert name not in checkpoints.read_offsets(machine.disk, "/data/recovery-point-offset-checkpoint")


def test_a_topic_whose_folder_could_not_be_renamed_does_not_come_back_in_its_successor() -> None:
    machine = Machine()
    machine.produce("old")
    name = TopicPartition("orders", 0)
    machine.disk.fail(DiskFault(Operation.RENAME, "*/orders-0", errno.EIO))
    log = machine.logs[0]
    machine.delete(name)
    assert log.offline is not None
    successor = machine.directory.create(name, TopicLogs(UUID(int=2), machine.config, synced=True))
    assert (successor.log_start_offset, successor.log_end_offset) == (0, 0)


def test_a_topic_that_could_not_be_made_leaves_nothing_that_the_next_attempt_minds() -> None:
    machine = Machine()
    for operation, path in [
        (Operation.MAKE_FOLDER, "*/late-0"),
        (Operation.CREATE, "*/late-0/partition.metadata"),
        (Operation.WRITE, "*/late-0/partition.metadata"),
        (Operation.CREATE, "*/late-0/*.log"),
    ]:
        machine.disk.fail(DiskFault(operation, path, errno.ENOSPC))
        with pytest.raises(OSError, match="No space"):
            machine.directory.create(TopicPartition("late", 0), TopicLogs(UUID(int=9), machine.config, synced=True))
        assert not machine.disk.exists("/data/late-0")
    log = machine.directory.create(TopicPartition("late", 0), TopicLogs(UUID(int=9), machine.config, synced=True))
    assert append(log, batch("a")).base_offset == 0


def test_a_roll_without_room_for_a_snapshot_is_a_roll_without_a_snapshot() -> None:
    machine = Machine()
    machine.produce()
    log = machine.logs[0]
    machine.disk.fail(DiskFault(Operation.WRITE, "*.snapshot", errno.ENOSPC, times=None))
    log.roll(NOW_MS)
    machine.produce()
    assert (len(log.segments), log.high_watermark) == (2, 2)
    machine.restart()
    assert machine.ends() == [2, 2, 2]


def test_a_roll_without_descriptors_refuses_the_write_and_takes_it_later() -> None:
    machine = Machine(config=LogConfig(segment_bytes=200))
    machine.produce()
    machine.disk.fail(DiskFault(Operation.OPEN, "*", errno.EMFILE, times=None))
    with pytest.raises(Exception, match="a new segment could not be made"):
        append(machine.logs[0], batch("x" * 100))
    machine.disk.repair()
    machine.produce()
    assert machine.ends() == [2, 2, 2]


def test_a_data_directory_that_was_moved_away_and_back_is_found_again() -> None:
    machine = Machine()
    machine.produce()
    machine.disk.rename("/data", "/elsewhere")
    machine.checkpoint()
    machine.produce()
    assert machine.points() == [0, 0, 0]
    machine.disk.rename("/elsewhere", "/data")
    machine.a_second_passes()
    assert machine.points() == [2, 2, 2]
    assert [log.offline for log in machine.logs] == [None] * 3


def test_nothing_is_appended_while_the_data_directory_is_gone() -> None:
    """What is written to files that are open could not be found again."""
    machine = Machine()
    machine.produce("before")
    machine.disk.rename("/data", "/elsewhere")
    machine.directory.tidy()
    with pytest.raises(KafkaError, match="the data directory /data is gone"):
        append(machine.logs[0], batch("lost"))
    with pytest.raises(FileNotFoundError):
        machine.directory.create(TopicPartition("new", 0), TopicLogs(UUID(int=9), machine.config, synced=True))
    assert values(machine.logs[0]) == [(0, b"before")]
    machine.disk.rename("/elsewhere", "/data")
    machine.directory.tidy()
    machine.produce("after")
    assert values(machine.logs[0]) == [(0, b"before"), (1, b"after")]


def test_refused_writes_are_one_line_a_minute_that_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.disk.fail(DiskFault(Operation.WRITE, "*.log", errno.ENOSPC, times=None))
    for second in range(121):
        for log in machine.logs:
            with pytest.raises(KafkaError):
                append(log, batch("x"))
        machine.clock.advance(1000)
        lines = [record.getMessage() for record in caplog.records if "was refused" in record.getMessage()]
        assert len(lines) == 1 + second // 60
    assert "/data: a write to orders-0 was refused: [Errno 28] No space left on device" in lines[0]
    assert "(179 more since the last line like this)" in lines[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.operation.value} {fault.path}")
def test_a_log_that_is_deleted_after_a_failed_checkpoint_is_freed_at_once(fault: DiskFault) -> None:
    """Its files are closed with it: until then they keep their space."""
    machine = Machine()
    machine.produce()
    machine.disk.fail(DiskFault(fault.operation, fault.path, fault.error, times=None))
    gc.disable()
    try:
        machine.checkpoint()
        machine.disk.repair()
        machine.delete(TopicPartition("orders", 0))
        logs = [each for each in gc.get_objects() if isinstance(each, PartitionLog) and each.disk is machine.disk]
        assert sorted(log.topic_partition.partition for log in logs) == [1, 2]
    finally:
        gc.enable()
