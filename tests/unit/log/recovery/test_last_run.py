"""What a start knows of the last run: whether the machine died, and which logs have lost records (scenario 66)."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from semel.log.config import LogConfig
from semel.log.disk import read_file, write_file
from semel.log.partition_log import PartitionLog
from semel.log.topic_logs import TopicLogs
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.page_cache import Unsynced
from semel.wire.records import iterate_headers
from tests.logs import NOW_MS, append, batch, open_log
from tests.unit.log.test_directory import SYNCED, UNSYNCED
from tests.unit.log.test_stored_high_watermark import Replica

FILE = "/data/last-run"
SEGMENT = "/data/orders-0/{:020d}.log"
LARGE = 1_000_000
SMALL = LogConfig(segment_bytes=200, index_interval_bytes=60)


class Broker(Replica):
    def __post_init__(self) -> None:
        super().__post_init__()
        both = frozenset({0, 1})
        self.orders(in_sync_elsewhere=both)
        self.topics["clicks"] = replace(UNSYNCED, replicated=both, in_sync_elsewhere=both)

    def orders(self, *, in_sync_elsewhere: frozenset[int]) -> TopicLogs:
        made = replace(SYNCED, config=SMALL, replicated=frozenset({0, 1}), in_sync_elsewhere=in_sync_elsewhere)
        self.topics["orders"] = made
        return made

    def tell(self) -> None:
        """The broker has registered."""
        telling = self.loop.create_task(self.directory.losses_reported())
        self.turn()
        self.workers["semel-folders"].step()
        self.turn()
        assert telling.done()

    def restart_with(self, unsynced: Unsynced | None) -> None:
        self.directory.kill()
        self.disk.kill() if unsynced is None else self.disk.crash(unsynced)
        self.directory = self.open()
        for log in self.directory.logs.values():
            log.on_durable = lambda _: None


@pytest.fixture
def broker() -> Broker:
    return Broker()


# The machine


def test_a_new_directory_has_lost_nothing(broker: Broker) -> None:
    assert not broker.directory.machine_died


def test_the_logs_that_a_lost_disk_had_are_missed_until_the_cluster_was_told(broker: Broker) -> None:
    """Loading makes them again: that they are empty says nothing then."""
    broker.create("orders")
    broker.directory.kill()
    broker.disk.kill()
    broker.disk.remove_folder("/data")
    broker.directory = broker.open()
    for _ in range(2):
        assert {log.has_lost_acknowledged_records for log in broker.directory.logs.values()} == {True}
        broker.restart_with(None)
    broker.tell()
    assert {log.has_lost_acknowledged_records for log in broker.directory.logs.values()} == {False}
    broker.restart_with(None)
    assert {log.has_lost_acknowledged_records for log in broker.directory.logs.values()} == {False}


def test_a_process_that_died_is_no_machine_that_died(broker: Broker) -> None:
    broker.create("clicks")
    broker.restart_with(None)
    assert not broker.directory.machine_died


def test_a_machine_that_died_is_known_until_the_cluster_was_told(broker: Broker) -> None:
    broker.create("clicks")
    broker.restart_with(Unsynced.LOST)
    assert broker.directory.machine_died
    broker.restart_with(None)
    assert broker.directory.machine_died, "the process died before it could register"
    broker.tell()
    assert not broker.directory.machine_died
    broker.restart_with(None)
    assert not broker.directory.machine_died
    broker.restart_with(Unsynced.LOST)
    assert broker.directory.machine_died


def test_after_a_clean_stop_a_machine_may_go_off(broker: Broker) -> None:
    append(broker.create("clicks"), batch("a"))
    broker.close()
    broker.disk.crash(Unsynced.LOST)
    broker.directory = broker.open()
    assert (broker.directory.machine_died, broker.log("clicks").log_end_offset) == (False, 1)


def test_what_is_appended_after_a_clean_stop_counts(broker: Broker) -> None:
    append(broker.create("clicks"), batch("a"))
    broker.stop()
    broker.restart_with(Unsynced.LOST)
    assert broker.directory.machine_died, "it ran again"


@pytest.mark.parametrize("damage", ["missing", "flipped", "cut"])
def test_without_a_sound_file_the_machine_may_have_died(broker: Broker, damage: str) -> None:
    broker.create("clicks")
    data = read_file(broker.disk, FILE)
    if damage == "missing":
        broker.disk.remove(FILE)
    else:
        write_file(broker.disk, FILE, data.replace(b"boot-1", b"boot-2") if damage == "flipped" else data[:-3])
    broker.restart_with(None)
    assert broker.directory.machine_died


def test_where_boots_cannot_be_told_apart_only_a_clean_stop_loses_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VirtualDisk, "boot_id", lambda self: None)
    append(broker.create("clicks"), batch("a"))
    broker.stop()
    assert not broker.directory.machine_died
    broker.restart_with(None)
    assert broker.directory.machine_died


def test_a_full_disk_does_not_keep_a_start_from_knowing_of_the_next_death(broker: Broker) -> None:
    append(broker.create("clicks"), batch("a"))
    broker.close()
    broker.disk.fail(DiskFault(Operation.WRITE, "*last-run*", errno.ENOSPC, times=None))
    broker.directory = broker.open()
    assert not broker.directory.machine_died
    broker.disk.repair()
    broker.restart_with(Unsynced.LOST)
    assert broker.directory.machine_died


# Records


def ten_records(broker: Broker) -> PartitionLog:
    """They are confirmed, and the journal does not hold them any more."""
    log = broker.create("orders")
    for number in range(10):
        append(log, batch(f"value {number}"))
    broker.commit()
    log.advance_high_watermark(10)
    broker.stop()
    return broker.log("orders")


def strike(broker: Broker, damage: str) -> int:
    """Damage the log of ten records. Returns how many are left."""
    first = [name for name in broker.disk.list("/data/orders-0") if name.endswith(".log")]
    path = f"/data/orders-0/{first[2]}"
    base_offset = int(first[2].removesuffix(".log"))
    match damage:
        case "segment missing":
            broker.disk.remove(path)
        case "segment cut":
            write_file(broker.disk, path, read_file(broker.disk, path)[:-5], sync=True)
            return base_offset + 1
        case "folder missing":
            broker.disk.remove_folder("/data/orders-0")
            return 0
        case _:
            write_file(broker.disk, path, b"", sync=True)
    return base_offset


DAMAGES = ["segment missing", "segment cut", "segment empty", "folder missing"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_that_lost_records_is_cut_where_other_brokers_have_them__scenario_66(broker: Broker, damage: str) -> None:
    ten_records(broker)
    left = strike(broker, damage)
    for _ in range(2):
        broker.restart_with(None)
        assert broker.directory.unavailable == {}
        log = broker.log("orders")
        assert (log.log_end_offset, log.high_watermark, log.has_lost_acknowledged_records) == (left, left, True)
    broker.tell()
    assert not log.has_lost_acknowledged_records
    fetched(broker, log)
    for unsynced in (None, Unsynced.LOST):
        broker.restart_with(unsynced)
        assert broker.directory.unavailable == {}
        log = broker.log("orders")
        assert (log.log_end_offset, log.has_lost_acknowledged_records) == (10, False)


def fetched(broker: Broker, log: PartitionLog) -> None:
    """The follower has caught up with another broker."""
    leader = open_log(VirtualDisk(), config=SMALL)
    for number in range(10):
        append(leader, batch(f"value {number}"))
    while log.log_end_offset < 10:
        log.append_copied(memoryview(leader.read_copy(log.log_end_offset, LARGE).records), now_ms=NOW_MS)
    broker.commit()
    assert log.durable_offset == 10


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_not_touched_where_no_other_broker_is_in_sync(broker: Broker, damage: str) -> None:
    ten_records(broker)
    strike(broker, damage)
    broker.orders(in_sync_elsewhere=frozenset())
    before = {name: broker.disk.list("/data/orders-0") for name in broker.disk.list("/data") if name == "orders-0"}
    broker.restart_with(None)
    assert list(map(str, broker.directory.unavailable)) == ["orders-0"]
    assert before == {
        name: broker.disk.list("/data/orders-0") for name in broker.disk.list("/data") if name == "orders-0"
    }


def test_what_the_journal_has_of_a_damaged_log_does_not_come_back(broker: Broker) -> None:
    """Its entries follow records that are gone."""
    log = ten_records(broker)
    append(log, batch("in the journal"))
    broker.commit()
    left = strike(broker, "segment missing")
    broker.restart_with(None)
    log = broker.log("orders")
    assert (log.log_end_offset, log.has_lost_acknowledged_records) == (left, True)
    append(log, batch("fetched"))
    broker.commit()
    broker.restart_with(Unsynced.LOST)
    assert broker.directory.unavailable == {}
    assert broker.log("orders").log_end_offset == left + 1


def test_a_log_that_ends_below_its_high_watermark_has_lost_acknowledged_records(broker: Broker) -> None:
    log = broker.create("clicks")
    for _ in range(5):
        append(log, batch("a"))
    log.advance_high_watermark(4)
    broker.directory.write_offsets()
    broker.restart_with(Unsynced.LOST)
    assert broker.log("clicks").has_lost_acknowledged_records
    broker.restart_with(None)
    assert broker.log("clicks").has_lost_acknowledged_records, "the process died before it could register"
    broker.tell()
    broker.restart_with(None)
    assert not broker.log("clicks").has_lost_acknowledged_records


@pytest.mark.parametrize("file", ["replication-offset-checkpoint", "recovery-point-offset-checkpoint"])
def test_an_older_copy_of_a_partition_has_lost_acknowledged_records__scenario_66(broker: Broker, file: str) -> None:
    """Its own files agree with each other. One of the files beside it is missing."""
    log = ten_records(broker)
    folder = "/data/orders-0"
    older = {name: read_file(broker.disk, f"{folder}/{name}") for name in broker.disk.list(folder)}
    append(log, batch("later"))
    broker.commit()
    log.advance_high_watermark(11)
    broker.close()
    broker.disk.remove_folder(folder)
    broker.disk.make_folder(folder)
    for name, data in older.items():
        write_file(broker.disk, f"{folder}/{name}", data)
    broker.disk.remove(f"/data/{file}")
    broker.directory = broker.open()
    assert (broker.log("orders").log_end_offset, broker.log("orders").has_lost_acknowledged_records) == (10, True)


# A damaged batch


def flip(disk: VirtualDisk, path: str, number: int, byte: int = -1) -> None:
    """Flip a bit of one batch of a segment, whose batches have the same size."""
    data = bytearray(read_file(disk, path))
    headers = list(iterate_headers(bytes(data)))
    start, header = headers[number]
    data[start + byte if byte >= 0 else start + header.size_bytes - 1] ^= 1
    write_file(disk, path, bytes(data), sync=True)


@pytest.mark.parametrize(
    "byte", [-1, 8, 12, 16, 17, 26], ids=["record", "length", "epoch", "magic", "CRC", "last offset delta"]
)
def test_a_leader_finds_its_own_damaged_batch__scenario_66(byte: int) -> None:
    disk = VirtualDisk()
    log = open_log(disk)
    for number in range(4):
        append(log, batch(f"value {number}"))
    assert [log.verify_copy(offset, LARGE) for offset in range(6)] == [None] * 6
    flip(disk, log.segments.first.path(".log"), 2, byte)
    assert log.verify_copy(0, LARGE) is not None
    assert log.verify_copy(2, 1) is not None
    assert log.verify_copy(0, 1) is None


@pytest.mark.parametrize("byte", [-1, 12], ids=["record", "epoch"])
def test_a_batch_that_is_damaged_in_the_middle_is_cut_at_the_next_start__scenario_66(broker: Broker, byte: int) -> None:
    log = ten_records(broker)
    flip(broker.disk, log.segments.first.path(".log"), 1, byte)
    reason = log.verify_copy(0, LARGE)
    assert reason is not None
    broker.directory.report_damage(log, reason)
    broker.directory.report_damage(log, reason)
    assert log.offline is None
    broker.workers["semel-folders"].step()
    assert (log.offline is not None, broker.workers["semel-folders"].jobs) == (True, [])
    broker.tell()
    broker.restart_with(None)
    log = broker.log("orders")
    assert (log.log_end_offset, log.has_lost_acknowledged_records) == (1, True)
    broker.tell()
    fetched(broker, log)
    broker.restart_with(None)
    log = broker.log("orders")
    assert (log.log_end_offset, log.has_lost_acknowledged_records) == (10, False)


def test_nothing_is_cut_where_no_other_broker_is_in_sync_any_more(broker: Broker) -> None:
    log = ten_records(broker)
    flip(broker.disk, log.segments.first.path(".log"), 1)
    broker.directory.report_damage(log, "damaged")
    broker.workers["semel-folders"].step()
    broker.orders(in_sync_elsewhere=frozenset())
    broker.restart_with(None)
    assert broker.log("orders").log_end_offset == 10
