"""All logs of a broker: group commit, disks that fail, deletion, the files beside the logs."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.durability import checkpoints
from semel.log.durability.checkpoints import MetaProperties
from semel.log.partition_log import PartitionLog
from semel.log.recovery.accepted_loss import accept_loss
from semel.log.topic_logs import TopicLogs
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.loop import VirtualLoop
from semel.types import TopicPartition
from tests.logs import NOW_MS, StepWorker, append, batch, produced, values, visible

SYNCED = TopicLogs(UUID(int=1), LogConfig(), synced=True)
UNSYNCED = TopicLogs(UUID(int=2), LogConfig(), synced=False)


@dataclass
class Machine:
    """A directory whose workers work when told, on a loop that runs when told."""

    disk: VirtualDisk = field(default_factory=VirtualDisk)
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS))
    workers: dict[str, StepWorker] = field(default_factory=dict)
    created: dict[str, list[int]] = field(default_factory=dict)
    topics: dict[str, TopicLogs] = field(default_factory=lambda: {"orders": SYNCED, "clicks": UNSYNCED})

    def __post_init__(self) -> None:
        self.directory = self.open()

    def open(self) -> LogDirectory:
        def make_worker(name: str) -> StepWorker:
            self.workers[name] = StepWorker()
            return self.workers[name]

        directory = LogDirectory("/data", disk=self.disk, clock=self.clock, loop=self.loop, make_worker=make_worker)
        directory.acquire(MetaProperties("cluster", 1))
        directory.load(
            {
                topic: replace(described, partitions=tuple(self.created.get(topic, ())))
                for topic, described in self.topics.items()
            }
        )
        for log in directory.logs.values():
            log.on_durable = visible
        return directory

    def create(self, topic: str, partition: int = 0) -> PartitionLog:
        self.created.setdefault(topic, []).append(partition)
        log = self.directory.create(TopicPartition(topic, partition), self.topics[topic])
        log.on_durable = visible
        return log

    def delete(self, topic: str, partition: int = 0) -> None:
        self.directory.change(lambda _: None, deleted=[TopicPartition(topic, partition)])
        self.workers["semel-folders"].step()

    def turn(self) -> None:
        """Let the loop do what is due now."""
        self.loop.run_until_complete(asyncio.sleep(0))

    def commit(self) -> None:
        self.turn()
        self.workers["semel-commit"].step()

    def checkpoint(self) -> None:
        self.directory.checkpoint()
        self.workers["semel-checkpoint"].step()

    def restart(self, *, power_cut: bool) -> None:
        self.directory.kill()
        self.disk.crash() if power_cut else self.disk.kill()
        self.directory = self.open()

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        return self.directory.logs[TopicPartition(topic, partition)]


@pytest.fixture
def machine() -> Machine:
    return Machine()


# Group commit


def test_nothing_is_visible_before_the_sync_and_everything_after_it(machine: Machine) -> None:
    log = machine.create("orders")
    append(log, batch("a"))
    machine.turn()
    assert (log.log_end_offset, log.durable_offset, log.high_watermark) == (1, 0, 0)
    machine.workers["semel-commit"].step()
    assert (log.log_end_offset, log.durable_offset, log.high_watermark) == (1, 1, 1)


def test_what_arrives_during_a_sync_waits_for_the_next_and_shares_it(machine: Machine) -> None:
    log = machine.create("orders")
    append(log, batch("a"))
    machine.turn()
    append(log, batch("b"))
    append(log, batch("c"))
    machine.workers["semel-commit"].step()
    assert log.high_watermark == 1
    machine.workers["semel-commit"].step()
    assert log.high_watermark == 3
    assert machine.directory.statistics.groups == 2


@pytest.mark.parametrize("partitions", [1, 50, 1000])
def test_one_sync_makes_a_group_durable_however_many_partitions_it_has(machine: Machine, partitions: int) -> None:
    logs = [machine.create("orders", number) for number in range(partitions)]
    for log in logs:
        append(log, batch("a"))
    before = machine.disk.statistics.syncs
    machine.commit()
    assert machine.disk.statistics.syncs - before == 1
    assert all(log.high_watermark == 1 for log in logs)


def test_a_large_write_to_one_partition_is_not_copied(machine: Machine) -> None:
    log = machine.create("orders")
    append(log, batch(b"x" * 500_000))
    before = machine.disk.statistics.bytes_written
    machine.commit()
    assert machine.disk.statistics.bytes_written == before
    machine.restart(power_cut=True)
    assert machine.log("orders").log_end_offset == 1


def test_with_flush_os_what_is_written_is_visible_at_once(machine: Machine) -> None:
    log = machine.create("clicks")
    before = machine.disk.statistics.syncs
    append(log, batch("a"))
    assert (log.high_watermark, machine.disk.statistics.syncs) == (1, before)


def test_a_power_cut_after_the_journal_was_synced_loses_nothing(machine: Machine) -> None:
    for number in range(3):
        append(machine.create("orders", number), produced(0, f"value {number}"))
    machine.commit()
    machine.restart(power_cut=True)
    for number in range(3):
        log = machine.log("orders", number)
        assert values(log) == [(0, f"value {number}".encode())]
        assert append(log, produced(0, f"value {number}")).duplicate


# Disks that fail


def test_scenario_67_a_failed_sync_takes_its_partition_offline_and_the_others_serve_on(machine: Machine) -> None:
    one, two = machine.create("orders", 0), machine.create("orders", 1)
    append(one, batch(b"x" * 500_000))
    append(two, batch(b"x" * 500_000))
    machine.disk.fail(DiskFault(Operation.SYNC, "*/orders-0/*.log", error=errno.EIO))
    machine.commit()
    assert (one.offline is not None, two.offline) == (True, None)
    assert (one.high_watermark, two.high_watermark) == (0, 1)
    with pytest.raises(KafkaError) as caught:
        append(one, batch("again"))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    append(two, batch("b"))
    machine.commit()
    assert two.high_watermark == 2


def test_a_journal_that_fails_is_given_up_and_the_partitions_sync_their_own_files(machine: Machine) -> None:
    logs = [machine.create("orders", number) for number in range(3)]
    machine.disk.fail(DiskFault(Operation.SYNC, "*/journal.*", error=errno.EIO))
    for log in logs:
        append(log, batch("a"))
    machine.commit()
    assert [(log.offline, log.high_watermark) for log in logs] == [(None, 1)] * 3
    for log in logs:
        append(log, batch("b"))
    before = machine.disk.statistics.syncs
    machine.workers["semel-checkpoint"].stop()
    machine.commit()
    assert machine.disk.statistics.syncs - before >= 3
    machine.restart(power_cut=True)
    assert [machine.log("orders", number).log_end_offset for number in range(3)] == [2, 2, 2]


def test_scenario_14_the_recovery_point_stays_when_the_snapshot_cannot_be_written(machine: Machine) -> None:
    log = machine.create("orders")
    append(log, produced(0))
    machine.commit()
    machine.disk.fail(DiskFault(Operation.SYNC, "*.snapshot.tmp", error=errno.EIO))
    machine.checkpoint()
    assert log.recovery_point == 0
    assert checkpoints.read_offsets(machine.disk, "/data/recovery-point-offset-checkpoint") == {("orders", 0): 0}


def test_the_journal_is_kept_when_a_partition_could_not_sync_its_own_file() -> None:
    machine = Machine()
    one, two = machine.create("orders", 0), machine.create("orders", 1)
    for log in (one, two, machine.create("orders", 2)):
        append(log, batch("a"))
    machine.commit()
    machine.disk.fail(DiskFault(Operation.SYNC, "*/orders-0/*.log", error=errno.EIO))
    machine.checkpoint()
    assert one.offline is not None
    machine.disk.repair()
    machine.restart(power_cut=True)
    assert [machine.log("orders", number).log_end_offset for number in range(3)] == [1, 1, 1]


def test_a_journal_that_continues_behind_a_hole_leaves_the_partition_offline(machine: Machine) -> None:
    log = machine.create("orders")
    append(log, batch(b"x" * 500_000))
    machine.commit()
    append(log, batch("small"))
    machine.commit()
    machine.directory.kill()
    machine.disk.kill()
    # As bit rot would have it: the batch that was synced is gone.
    machine.disk.open("/data/orders-0/00000000000000000000.log").write(100, b"\xff\xff")
    machine.directory = machine.open()
    reason = machine.directory.unavailable[TopicPartition("orders", 0)].reason
    assert "/data/orders-0: the journal continues at offset 1, the log ends at 0" in reason


# Checkpoints, deletion, truncation


def test_after_a_checkpoint_a_start_reads_nothing_again(machine: Machine) -> None:
    log = machine.create("orders")
    for sequence in range(20):
        append(log, produced(sequence))
    machine.commit()
    machine.checkpoint()
    assert log.recovery_point == 20
    machine.restart(power_cut=True)
    assert machine.log("orders").recovery_point == 20
    assert append(machine.log("orders"), produced(19)).duplicate


def test_a_deleted_partition_is_gone_and_its_journal_entries_do_not_reach_its_successor(machine: Machine) -> None:
    append(machine.create("orders"), batch("old"))
    append(machine.create("orders", 1), batch("stays"))
    machine.commit()
    machine.delete("orders")
    machine.topics["orders"] = TopicLogs(UUID(int=99), LogConfig(), synced=True)
    machine.restart(power_cut=True)
    assert [log.log_end_offset for log in machine.directory.logs.values()] == [0, 0]
    assert not [name for name in machine.disk.list("/data") if name.endswith("-delete")]


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("changes", range(1, 15))
def test_a_new_topic_of_another_broker_is_opened_if_the_process_died_while_it_deleted_the_former_one(
    machine: Machine, changes: int, power_cut: bool
) -> None:
    """A folder with its new name, and lines of the former topic in the checkpoint files, would look like a lost log."""
    append(machine.create("orders"), batch(*"abcdef"))
    machine.commit()
    machine.checkpoint()
    machine.directory.change(lambda _: None, deleted=[TopicPartition("orders", 0)], settled=True)
    machine.disk.crash_after(changes)
    with suppress(SimulatedCrash):
        machine.workers["semel-folders"].step()
    machine.topics["orders"] = TopicLogs(UUID(int=99), LogConfig(), synced=True)
    machine.restart(power_cut=power_cut)
    assert machine.directory.unavailable == {}
    assert machine.log("orders").log_end_offset == 0


def test_a_recovery_point_does_not_outlive_its_topic(machine: Machine) -> None:
    """A topic of the same name begins at offset 0, and what lies below the old point is not trusted unread."""
    append(machine.create("orders"), batch(*"abcdef"))
    machine.commit()
    machine.checkpoint()
    machine.delete("orders")
    machine.topics["orders"] = TopicLogs(UUID(int=99), LogConfig(), synced=True)
    machine.create("orders")
    assert checkpoints.read_offsets(machine.disk, "/data/recovery-point-offset-checkpoint") == {}


def test_a_folder_that_belongs_to_no_topic_is_set_aside_not_removed(machine: Machine) -> None:
    append(machine.create("orders"), batch("precious"))
    machine.commit()
    machine.checkpoint()
    del machine.topics["orders"]
    machine.restart(power_cut=False)
    assert machine.directory.logs == {}
    assert f"{UUID(int=1).hex}-0-stray" in machine.disk.list("/data")


def test_a_checkpoint_of_many_partitions_takes_a_fixed_number_of_syncs() -> None:
    taken = []
    for partitions in (20, 200):
        machine = Machine()
        for number in range(partitions):
            append(machine.create("orders", number), batch("a"))
        machine.commit()
        before = machine.disk.statistics.syncs + machine.disk.statistics.directory_syncs
        machine.checkpoint()
        taken.append(machine.disk.statistics.syncs + machine.disk.statistics.directory_syncs - before)
        assert all(log.recovery_point == 1 for log in machine.directory.logs.values())
    assert taken[0] == taken[1]


def test_when_all_cannot_be_synced_at_once_each_partition_is_asked() -> None:
    machine = Machine()
    logs = [machine.create("orders", number) for number in range(20)]
    for log in logs:
        append(log, batch("a"))
    machine.commit()
    machine.disk.fail(DiskFault(Operation.SYNC_ALL, "*", error=errno.EIO))
    machine.checkpoint()
    assert [(log.offline, log.recovery_point) for log in logs] == [(None, 1)] * 20


def test_a_truncated_log_stays_truncated_after_a_power_cut(machine: Machine) -> None:
    log = machine.create("orders")
    for sequence in range(6):
        append(log, produced(sequence, f"value {sequence}"))
        machine.commit()
    machine.directory.truncate(log, 3)
    assert (log.log_end_offset, log.high_watermark) == (3, 3)
    assert append(log, produced(3, "another")).base_offset == 3
    machine.commit()
    machine.restart(power_cut=True)
    assert values(machine.log("orders")) == [(0, b"value 0"), (1, b"value 1"), (2, b"value 2"), (3, b"another")]


def test_records_deleted_by_hand_stay_deleted(machine: Machine) -> None:
    log = machine.create("orders")
    append(log, batch("a", "b", "c"))
    machine.commit()
    log.delete_records_before(2)
    before = replace(machine.disk.statistics)
    persisting = machine.loop.create_task(machine.directory.persist_log_starts())
    machine.turn()
    assert machine.disk.statistics == before, "the loop waits for no sync"
    machine.workers["semel-folders"].step()
    machine.turn()
    assert persisting.done()
    machine.restart(power_cut=True)
    assert machine.log("orders").log_start_offset == 2


def test_the_log_start_of_a_log_that_was_deleted_meanwhile_is_not_written_for_its_successor(machine: Machine) -> None:
    log = machine.create("orders")
    append(log, batch("a", "b", "c"))
    machine.commit()
    log.delete_records_before(2)
    name = TopicPartition("orders", 0)
    again = machine.topics["orders"] = TopicLogs(UUID(int=99), LogConfig(), synced=True)
    machine.directory.change(lambda _: None, deleted=[name], settled=True, wanted={name: again})
    persisting = machine.loop.create_task(machine.directory.persist_log_starts())
    for _ in range(3):
        machine.turn()
        while machine.workers["semel-folders"].jobs:
            machine.workers["semel-folders"].step()
    assert persisting.done()
    assert not machine.disk.exists("/data/orders-0/partition.checkpoint")
    machine.restart(power_cut=False)
    assert (machine.log("orders").log_start_offset, machine.log("orders").topic_id) == (0, UUID(int=99))


def close(machine: Machine) -> None:
    closing = machine.loop.create_task(machine.directory.close())
    for _ in range(20):
        machine.turn()
        for worker in machine.workers.values():
            worker.stop()
    assert closing.done()


def test_a_clean_close_leaves_nothing_to_read_again(machine: Machine) -> None:
    append(machine.create("orders"), produced(0))
    close(machine)
    machine.disk.crash()
    machine.directory = machine.open()
    log = machine.log("orders")
    assert (log.log_end_offset, log.recovery_point) == (1, 1)
    assert {"00000000000000000000.index", "00000000000000000000.timeindex"} < set(machine.disk.list("/data/orders-0"))


def test_records_that_were_given_up_do_not_come_back_from_a_journal_of_before_the_clean_close(machine: Machine) -> None:
    log = machine.create("orders")
    for number in range(10):
        append(log, batch(f"{number}"))
        machine.commit()
    close(machine)
    size = log.size_bytes // 10
    path = "/data/orders-0/00000000000000000000.log"
    machine.disk.open(path).write(5 * size + 65, b"damaged")
    accept_loss(machine.disk, "/data", TopicPartition("orders", 0), SYNCED.topic_id, is_compacted=False)
    machine.directory = machine.open()
    log = machine.log("orders")
    append(log, batch("A"))
    machine.commit()
    machine.restart(power_cut=False)
    assert values(machine.log("orders")) == [*((number, b"%d" % number) for number in range(5)), (5, b"A")]


# Whose directory


def test_a_second_broker_is_refused_by_name_and_pid(machine: Machine) -> None:
    with pytest.raises(StorageError, match=r"/data is in use by another broker"):
        machine.open()


def test_a_directory_of_a_newer_format_is_refused() -> None:
    machine = Machine()
    machine.directory.kill()
    machine.disk.kill()
    checkpoints.write_meta_properties(machine.disk, "/data/meta.properties", MetaProperties("cluster", 1, version=99))
    with pytest.raises(StorageError, match="version 99"):
        machine.open()
