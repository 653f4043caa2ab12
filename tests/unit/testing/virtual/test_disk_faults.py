"""Disks that fail: errors on demand, and what they leave behind."""

from __future__ import annotations

import errno

import pytest

from semel.log.disk import read_file
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, DiskStatistics, Operation
from semel.testing.virtual.page_cache import Unsynced
from tests.unit.testing.virtual.disk_with_file import disk_with_file


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = disk_with_file("/data/a.log")
    disk.capacity_bytes = 10
    file = disk.open("/data/a.log")
    file.write(0, b"12345678")
    assert disk.free_bytes("/data") == 2
    with pytest.raises(OSError, match="No space left on device") as refusal:
        file.write(8, b"90abc")
    assert refusal.value.errno == errno.ENOSPC
    assert (file.read(0, 20), disk.free_bytes("/data")) == (b"1234567890", 0)
    file.write(0, b"overwriting needs no space"[:10])
    file.truncate(4)
    file.write(4, b"123456")
    disk.remove("/data/a.log")
    assert disk.free_bytes("/data") == 10


def test_a_failing_write_leaves_a_prefix_of_any_length() -> None:
    left = set()
    for seed in range(60):
        disk = disk_with_file("/data/a.log", seed)
        disk.fail(DiskFault(Operation.WRITE, "*.log"))
        file = disk.open("/data/a.log")
        with pytest.raises(OSError, match="Input/output error"):
            file.write(0, b"abc")
        left.add(file.read(0, 10))
    assert left == {b"", b"a", b"ab", b"abc"}


def test_a_fault_strikes_only_its_operation_and_path_and_only_so_often() -> None:
    disk = disk_with_file("/data/a.log")
    disk.open("/data/b.index", create=True)
    disk.fail(DiskFault(Operation.WRITE, "*.log", error=errno.ENOSPC, times=2, skip=1))
    log, index = disk.open("/data/a.log"), disk.open("/data/b.index")
    index.write(0, b"x")
    log.write(0, b"x")
    log.sync()
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            log.write(0, b"x")
    log.write(0, b"x")


def test_a_permanent_fault_lasts_until_the_disk_is_repaired() -> None:
    disk = disk_with_file("/data/a.log")
    disk.fail(DiskFault(Operation.READ, times=None))
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            disk.open("/data/a.log").read(0, 1)
    disk.repair()
    assert read_file(disk, "/data/a.log") == b""


def test_a_sync_that_succeeds_after_one_that_failed_makes_nothing_durable() -> None:
    """As on Linux, where the pages of a failed sync count as clean: whoever syncs again and believes it loses data."""
    after_power_cut, seen_before = set(), set()
    for seed in range(100):
        disk = disk_with_file("/data/a.log", seed)
        file = disk.open("/data/a.log")
        file.write(0, b"old")
        file.sync()
        file.write(0, b"new")
        disk.fail(DiskFault(Operation.SYNC, "*.log"))
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        file.sync()
        seen_before.add(file.read(0, 10))
        disk.crash(Unsynced.KEPT)
        after_power_cut.add(read_file(disk, "/data/a.log"))
    assert {b"old", b"new"} <= after_power_cut
    assert {b"old", b"new"} <= seen_before


def test_what_is_written_and_synced_after_a_failed_sync_is_durable_itself() -> None:
    for seed in range(50):
        disk = disk_with_file("/data/a.log", seed)
        file = disk.open("/data/a.log")
        file.write(0, b"lost?")
        disk.fail(DiskFault(Operation.SYNC))
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        file.write(5, b"safe")
        file.sync()
        disk.crash(Unsynced.LOST)
        assert read_file(disk, "/data/a.log")[5:] == b"safe"


def test_a_failed_sync_of_a_folder_is_not_mended_by_the_next_one() -> None:
    survived = set()
    for seed in range(60):
        disk = disk_with_file("/data/a.log", seed)
        disk.open("/data/b", create=True)
        disk.fail(DiskFault(Operation.SYNC_DIRECTORY))
        with pytest.raises(OSError, match="Input/output error"):
            disk.sync_directory("/data")
        disk.sync_directory("/data")
        assert disk.exists("/data/b")
        disk.crash(Unsynced.KEPT)
        survived.add(disk.exists("/data/b"))
    assert survived == {True, False}


def test_the_disk_counts_what_is_asked_of_it() -> None:
    disk = VirtualDisk()
    file = disk.open("/a", create=True)
    file.write(0, b"123")
    file.write_many(3, [b"4", b"56"])
    file.sync()
    file.truncate(1)
    file.read(0, 1)
    disk.sync_directory("/")
    expected = DiskStatistics(
        reads=1, writes=2, bytes_written=6, syncs=1, directory_syncs=1, open_files=1, open_files_max=1, changes=6
    )
    assert disk.statistics == expected
