"""The journal: what was appended comes back, what was not is not invented."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from semel.log.durability.journal import FILE_NAMES, Entry, Journal, Kind, read_entries
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.page_cache import Unsynced

ID = UUID(int=5)


def data(base_offset: int, payload: bytes = b"payload") -> Entry:
    return Entry(Kind.DATA, ID, 0, base_offset, payload)


def offsets(disk: VirtualDisk) -> list[int]:
    return [entry.base_offset for entry in read_entries(disk, "/data")[1]]


@pytest.fixture
def disk() -> VirtualDisk:
    disk = VirtualDisk(Random(1))
    disk.make_folder("/data")
    disk.sync_directory("/")
    return disk


def test_entries_come_back_in_the_order_written(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    entries = [data(0), Entry(Kind.VOID, ID, 3, 7, b""), data(5, b"")]
    journal.append(entries[:2])
    journal.append(entries[2:])
    assert read_entries(disk, "/data") == (1, entries)


def test_a_power_cut_takes_nothing_that_was_appended(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    for base_offset in range(50):
        journal.append([data(base_offset, bytes([base_offset]) * base_offset * 100)])
    disk.crash()
    assert offsets(disk) == list(range(50))


def test_an_entry_that_is_cut_at_any_byte_is_not_there(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    journal.append([data(0)])
    journal.append([data(1)])
    path = f"/data/{FILE_NAMES[1]}"
    start = len(b"payload") + 49
    for cut in range(start, 2 * start):
        torn = disk.copy()
        file = torn.open(path)
        file.write(cut, bytes(2 * start - cut))
        expected = [0] if any(disk.open(path).read(cut, 2 * start - cut)) else [0, 1]
        assert offsets(torn) == expected, cut


def test_what_an_earlier_use_of_the_file_left_behind_is_not_read(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    journal.append([data(number) for number in range(10)])
    journal.switch()
    journal.release()
    journal.append([data(10)])
    journal.switch()
    journal.append([data(11)])
    assert offsets(disk) == [10, 11]


def test_both_files_are_read_while_both_are_needed(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    journal.append([data(0)])
    journal.switch()
    journal.append([data(1)])
    assert read_entries(disk, "/data") == (2, [data(0), data(1)])
    assert not journal.can_switch


def test_a_journal_that_was_forgotten_is_empty(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    journal.append([data(0)])
    journal.forget()
    disk.crash()
    assert read_entries(disk, "/data") == (1, [])


@pytest.mark.parametrize("released", [False, True])
def test_what_an_earlier_process_left_behind_is_not_read(disk: VirtualDisk, released: bool) -> None:
    journal = Journal(disk, "/data", generation=1)
    journal.append([data(number) for number in range(10)])
    if released:
        journal.switch()
        journal.release()
    else:
        journal.forget()
    generation, _ = read_entries(disk, "/data")
    later = Journal(disk, "/data", generation=generation + 1)
    for number in range(10, 13):  # In one of them the other file is used.
        later.append([data(number)])
        assert offsets(disk) == [number]
        later.switch()
        later.release()


def test_the_next_process_goes_on_with_a_higher_generation(disk: VirtualDisk) -> None:
    Journal(disk, "/data", generation=1).append([data(0)])
    generation, _ = read_entries(disk, "/data")
    Journal(disk, "/data", generation=generation + 1).append([data(1)])
    assert offsets(disk) == [0, 1]


def test_syncs_do_not_grow_with_the_entries(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    before = disk.statistics.syncs
    journal.append([data(number) for number in range(1_000)])
    assert disk.statistics.syncs == before + 1


def test_room_that_is_given_back_takes_no_entry_with_it(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    journal.append([data(0)])
    journal.switch()
    journal.append([data(1)])
    used = disk.used_bytes()
    assert journal.release_reserve()
    assert disk.used_bytes() < used
    assert not journal.release_reserve()
    journal.append([data(2)])
    disk.crash(Unsynced.KEPT)
    assert offsets(disk) == [0, 1, 2], "the file that was switched from is in use until it is released"


def test_a_reserve_is_made_where_there_is_room_and_is_given_back(disk: VirtualDisk) -> None:
    journal = Journal(disk, "/data", generation=1)
    assert not journal.release_reserve()
    journal.reserve()
    reserved = disk.used_bytes()
    journal.reserve()
    assert disk.used_bytes() == reserved > 0
    assert journal.release_reserve()
    assert disk.used_bytes() == 0
    disk.capacity_bytes = 100
    journal.reserve()
    assert journal.release_reserve(), "what a write that found no room has left behind"
    disk.capacity_bytes = None
    journal.append([data(0, b"")])
    disk.crash()
    assert offsets(disk) == [0]
