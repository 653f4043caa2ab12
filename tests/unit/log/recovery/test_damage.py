"""Damaged files of a data directory: what is missed is said and kept, what is derived is made again."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log.compaction.cleaner import LogCleaner
from semel.log.config import CleanupPolicy, LogConfig
from semel.log.directory import LogDirectory
from semel.log.disk import read_file, write_file
from semel.log.durability import checkpoints
from semel.log.durability.checkpoints import MetaProperties
from semel.log.durability.journal import Entry, Journal, Kind
from semel.log.outcomes import Isolation
from semel.log.partition_log import PartitionLog
from semel.log.topic_logs import TopicLogs
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.loop import VirtualLoop
from semel.types import TopicPartition
from semel.wire.records import MAGIC_POSITION, iterate_headers, verify_crc
from tests.logs import NOW_MS, StepWorker, append, batch, produced, values, visible

TOPIC = TopicLogs(UUID(int=1), LogConfig(segment_bytes=400, index_interval_bytes=100), synced=True, partitions=(0, 1))
DAMAGED, SOUND = TopicPartition("orders", 0), TopicPartition("orders", 1)
FOLDER = "/data/orders-0"
FIRST = f"{FOLDER}/{0:020}.log"


class Machine:
    """A directory that is stopped, killed and started again on one disk."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.loop = VirtualLoop()
        self.topics = {"orders": TOPIC}
        self.start()

    def start(self) -> None:
        self.workers: list[StepWorker] = []

        def make_worker(name: str) -> StepWorker:
            self.workers.append(StepWorker())
            return self.workers[-1]

        self.directory = LogDirectory(
            "/data", disk=self.disk, clock=ManualClock(NOW_MS), loop=self.loop, make_worker=make_worker
        )
        self.directory.acquire(MetaProperties("cluster", 1))
        self.directory.load(self.topics)
        for log in self.directory.logs.values():
            log.on_durable = visible

    def settle(self, task: asyncio.Task[None] | None = None) -> None:
        for _ in range(20):
            self.loop.run_until_complete(asyncio.sleep(0))
            for worker in self.workers:
                while worker.jobs:
                    worker.step()
        assert task is None or task.done()

    def stop(self) -> None:
        self.settle(self.loop.create_task(self.directory.close()))
        self.disk.kill()

    def kill(self) -> None:
        self.directory.kill()
        self.disk.kill()

    def log(self, name: TopicPartition = DAMAGED) -> PartitionLog:
        return self.directory.logs[name]

    def reason(self) -> str:
        return self.directory.unavailable[DAMAGED].reason


def filled(records: int = 12) -> Machine:
    machine = Machine()
    for name in (DAMAGED, SOUND):
        for number in range(records):
            append(machine.log(name), produced(number, f"value {number}"))
    machine.settle()
    return machine


def stopped(records: int = 12) -> Machine:
    machine = filled(records)
    machine.stop()
    return machine


def files(machine: Machine, folder: str = FOLDER) -> dict[str, bytes]:
    return {name: read_file(machine.disk, f"{folder}/{name}") for name in machine.disk.list(folder)}


def cut(machine: Machine, path: str, size: int) -> None:
    file = machine.disk.open(path)
    file.truncate(size)
    file.close()


def flip(machine: Machine, path: str, position: int, bit: int = 1) -> None:
    data = bytearray(read_file(machine.disk, path))
    data[position] ^= bit
    write_file(machine.disk, path, bytes(data))


def newest(machine: Machine, suffix: str = ".log") -> str:
    return f"{FOLDER}/{max(name for name in machine.disk.list(FOLDER) if name.endswith(suffix))}"


EXPECTED = [(number, f"value {number}".encode()) for number in range(12)]


# One bad partition


def test_a_journal_entry_that_is_no_batch_takes_one_partition_offline_and_the_others_serve() -> None:
    machine = stopped()
    bad = bytearray(batch("x"))
    bad[57:61] = bytes(4)  # no records
    bad[23:27] = (-5).to_bytes(4, "big", signed=True)
    journal = Journal(machine.disk, "/data", generation=99)
    journal.append([Entry(Kind.DATA, TOPIC.topic_id, 0, 12, bytes(bad))])
    machine.start()
    assert "/data/orders-0" in machine.reason()
    assert "semel log repair" in machine.reason()
    assert values(machine.log(SOUND)) == EXPECTED


def test_the_journal_of_an_offline_partition_is_kept_until_it_is_sound_again() -> None:
    machine = filled()
    machine.kill()
    content = files(machine)
    machine.disk.remove(FIRST)
    for name in content:
        if name.endswith(".log"):
            cut(machine, f"{FOLDER}/{name}", 0) if name != FIRST.rpartition("/")[2] else None
    # A name where a folder should be: the partition cannot even be listed.
    machine.disk.remove_folder(FOLDER)
    write_file(machine.disk, FOLDER, b"no folder")
    machine.start()
    assert "/data/orders-0" in machine.reason()
    for number in range(12, 40):
        append(machine.log(SOUND), produced(number, "more" * 20))
        machine.settle()
    machine.stop()
    machine.disk.remove(FOLDER)
    machine.start()
    assert values(machine.log()) == EXPECTED


# Records that are gone


def lose_the_tail(machine: Machine) -> None:
    path = newest(machine)
    cut(machine, path, machine.disk.open(path).size() - 10)


def lose_the_newest_segment(machine: Machine) -> None:
    machine.disk.remove(newest(machine))


def lose_a_segment_in_the_middle(machine: Machine) -> None:
    logs = [name for name in machine.disk.list(FOLDER) if name.endswith(".log")]
    machine.disk.remove(f"{FOLDER}/{logs[1]}")


def lose_the_first_segment(machine: Machine) -> None:
    machine.disk.remove(FIRST)


def lose_the_end_of_a_closed_segment(machine: Machine) -> None:
    cut(machine, FIRST, machine.disk.open(FIRST).size() - 1)


def lose_all_segments(machine: Machine) -> None:
    for name in machine.disk.list(FOLDER):
        if name.endswith(".log"):
            machine.disk.remove(f"{FOLDER}/{name}")


LOSSES = [
    lose_the_tail,
    lose_the_newest_segment,
    lose_a_segment_in_the_middle,
    lose_the_first_segment,
    lose_the_end_of_a_closed_segment,
    lose_all_segments,
]


@pytest.mark.parametrize("lose", LOSSES)
def test_synced_records_that_are_gone_leave_the_partition_offline_at_every_start(
    lose: Callable[[Machine], None],
) -> None:
    machine = stopped()
    lose(machine)
    damaged = files(machine)
    for end in (machine.stop, machine.kill, machine.stop):
        machine.start()
        assert DAMAGED not in machine.directory.logs
        assert "were synced and are gone from the disk" in machine.reason()
        assert "semel log repair" in machine.reason()
        assert FOLDER in machine.reason()
        assert values(machine.log(SOUND))[:12] == EXPECTED
        append(machine.log(SOUND), batch("more"))
        machine.settle()
        end()
        assert files(machine) == damaged
        points = checkpoints.read_offsets(machine.disk, "/data/recovery-point-offset-checkpoint")
        assert points[DAMAGED] == 12


@pytest.mark.parametrize("lose", LOSSES[:-1])
def test_with_only_the_shared_recovery_points_left_a_loss_at_the_end_is_still_found(
    lose: Callable[[Machine], None],
) -> None:
    machine = stopped()
    machine.disk.remove(f"{FOLDER}/partition.checkpoint")
    if lose is lose_the_first_segment:
        return  # Without the checkpoint this is what retention leaves.
    lose(machine)
    machine.start()
    assert "were synced and are gone from the disk" in machine.reason()


@pytest.mark.parametrize("lose", [lose_the_tail, lose_the_newest_segment, lose_all_segments])
def test_what_the_journal_holds_is_put_back_exactly(lose: Callable[[Machine], None]) -> None:
    machine = filled()
    machine.directory.checkpoint()
    machine.settle()
    assert machine.log().recovery_point == 12
    append(machine.log(), produced(12, "value 12"))
    machine.settle()
    machine.kill()
    lose(machine)
    machine.start()
    assert machine.directory.unavailable == {}
    assert values(machine.log()) == [*EXPECTED, (12, b"value 12")]
    append(machine.log(), produced(13, "value 13"))
    machine.settle()
    machine.stop()
    machine.start()
    assert values(machine.log()) == [*EXPECTED, (12, b"value 12"), (13, b"value 13")]


def test_a_file_that_is_put_back_from_a_copy_is_served_again() -> None:
    machine = stopped()
    path = newest(machine)
    whole = read_file(machine.disk, path)
    lose_the_tail(machine)
    machine.start()
    machine.stop()
    write_file(machine.disk, path, whole)
    machine.start()
    assert values(machine.log()) == EXPECTED


def test_a_topic_with_an_offline_partition_can_be_deleted_and_made_again() -> None:
    machine = stopped()
    lose_the_tail(machine)
    machine.start()
    machine.directory.change(lambda _: None, deleted=[DAMAGED, SOUND], settled=True)
    machine.settle()
    again = replace(TOPIC, topic_id=UUID(int=2))
    machine.topics = {"orders": again}
    log = machine.directory.create(DAMAGED, again)
    assert log.log_end_offset == 0
    machine.kill()
    machine.start()
    assert machine.directory.unavailable == {}
    assert values(machine.log()) == []


# Whose folder


def metadata_path() -> str:
    return f"{FOLDER}/partition.metadata"


def drop_metadata(machine: Machine) -> None:
    machine.disk.remove(metadata_path())


def empty_metadata(machine: Machine) -> None:
    write_file(machine.disk, metadata_path(), b"")


def metadata_of_version_1(machine: Machine) -> None:
    data = read_file(machine.disk, metadata_path())
    write_file(machine.disk, metadata_path(), data.replace(b"version: 0", b"version: 1"))


@pytest.mark.parametrize("ruin", [drop_metadata, empty_metadata, metadata_of_version_1])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_folder_without_a_readable_topic_id_keeps_its_records(
    ruin: Callable[[Machine], None], has_checkpoint: bool
) -> None:
    machine = stopped()
    ruin(machine)
    if not has_checkpoint:
        machine.disk.remove(f"{FOLDER}/partition.checkpoint")
    for _ in range(2):
        machine.start()
        assert values(machine.log()) == EXPECTED
        machine.stop()
    assert checkpoints.read_topic_id(machine.disk, metadata_path()) == TOPIC.topic_id


def test_a_folder_set_aside_takes_no_other_ones_place() -> None:
    machine = stopped()
    stray = f"/data/{TOPIC.topic_id.hex}-0-stray"
    machine.disk.make_folder(stray)
    write_file(machine.disk, f"{stray}/precious", b"set aside before")
    machine.topics = {}
    machine.start()
    assert machine.disk.list(stray) == ["precious"]
    assert machine.disk.exists(f"/data/{TOPIC.topic_id.hex}-0.2-stray/{0:020}.log")


def test_only_folders_of_deleted_topics_are_removed() -> None:
    machine = stopped()
    names = ["mine-delete", f"{TOPIC.topic_id.hex}-5-delete", f"{UUID(int=77).hex}-0-delete"]
    for name in names:
        machine.disk.make_folder(f"/data/{name}")
    machine.start()
    assert [name for name in names if machine.disk.exists(f"/data/{name}")] == names[:2]


# What is derived


@pytest.mark.parametrize("copy", ["/data/log-start-offset-checkpoint", f"{FOLDER}/partition.checkpoint"])
@pytest.mark.parametrize("stops", [True, False])
def test_deleted_records_stay_deleted_when_one_copy_of_the_log_start_is_lost(copy: str, stops: bool) -> None:
    machine = filled()
    older = read_file(machine.disk, copy) if machine.disk.exists(copy) else None
    machine.log().delete_records_before(5)
    machine.settle(machine.loop.create_task(machine.directory.persist_log_starts()))
    machine.stop() if stops else machine.kill()
    data = read_file(machine.disk, copy)
    changes = [None, b"", data[:-3], older or b"0\n0\n"]
    changes += [data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :] for at in range(len(data)) for bit in (1, 16)]
    disk = machine.disk
    for change in changes:
        machine.disk = disk.copy()
        machine.disk.remove(copy) if change is None else write_file(machine.disk, copy, change)
        machine.start()
        assert machine.directory.unavailable == {}
        assert values(machine.log()) == EXPECTED[5:], change
        machine.kill()


# A batch inside a segment


@pytest.mark.parametrize("byte", [8, 9, 10, 11, 23, 24, 25, 26])
def test_a_reader_from_any_offset_gets_what_is_there_or_an_error_when_a_length_or_a_count_is_flipped(byte: int) -> None:
    machine = Machine()
    for number in range(8):
        append(machine.log(), batch(*(f"value {number} {record}" for record in range(4))))
    machine.settle()
    machine.stop()
    sound = machine.disk
    starts = [position for position, _ in iterate_headers(read_file(sound, FIRST))]
    for start in starts[:3]:
        for bit in range(8):
            machine.disk = sound.copy()
            flip(machine, FIRST, start + byte, 1 << bit)
            machine.start()
            for offset in range(32 if DAMAGED in machine.directory.logs else 0):
                try:
                    records = machine.log().read(offset, 10_000, isolation=Isolation.READ_UNCOMMITTED).records
                    (_, first), *_ = iterate_headers(records, allow_partial_tail=True)
                except (KafkaError, DecodeError):
                    continue
                reached = first.base_offset <= offset <= first.last_offset
                assert reached or not verify_crc(records, 0, first), f"{bit} at {start}: {offset} leads to {first}"
            machine.kill()


def with_damaged_first_header() -> Machine:
    """The header of the first batch of the active segment is damaged; nothing of it was read at the start."""
    machine = stopped(records=5)
    assert newest(machine) == FIRST
    flip(machine, FIRST, MAGIC_POSITION)
    machine.start()
    assert machine.directory.unavailable == {}
    return machine


def test_a_damaged_header_at_the_begin_of_a_segment_refuses_no_append() -> None:
    machine = with_damaged_first_header()
    append(machine.log(), produced(5, "value 5"))
    assert machine.log().log_end_offset == 6
    batches = read_file(machine.disk, f"/data/{SOUND}/{0:020}.log")
    (position, _), *_ = list(iterate_headers(batches))[-1:]
    copy = bytearray(batches[position:])
    copy[7] = 6
    machine.log().append_copied(memoryview(copy), now_ms=NOW_MS)
    assert machine.log().log_end_offset == 7


def test_a_segment_whose_begin_cannot_be_read_takes_its_log_offline() -> None:
    machine = stopped(records=5)
    machine.start()
    machine.disk.fail(DiskFault(Operation.READ, f"{FOLDER}/*", errno.EIO, times=None))
    with pytest.raises(KafkaError) as caught:
        append(machine.log(), produced(5, "value 5"))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert machine.log().offline is not None


def compacted() -> TopicLogs:
    policy = frozenset({CleanupPolicy.COMPACT})
    return replace(TOPIC, config=replace(TOPIC.config, cleanup_policy=policy, max_compaction_lag_ms=1000))


def test_a_log_with_a_damaged_header_does_not_keep_the_others_from_being_compacted() -> None:
    machine = with_damaged_first_header()
    machine.kill()
    machine.topics = {"orders": compacted()}
    machine.start()
    cleaner = LogCleaner(machine.directory, ManualClock(NOW_MS))
    assert cleaner.choose(NOW_MS + 10_000) is machine.log(SOUND)


def test_a_log_that_cannot_be_read_does_not_keep_the_others_from_being_compacted() -> None:
    machine = stopped(records=12)
    machine.topics = {"orders": compacted()}
    machine.start()
    machine.disk.fail(DiskFault(Operation.READ, f"{FOLDER}/*", errno.EIO, times=None))
    cleaner = LogCleaner(machine.directory, ManualClock(NOW_MS))
    for _ in range(2):
        assert cleaner.choose(NOW_MS + 10_000) is machine.log(SOUND)
