"""What a power cut leaves on the virtual disk, and that it leaves everything that it may."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import count, islice

import pytest

from semel.log.disk import read_file, replace_file
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.page_cache import PAGE_BYTES, Unsynced
from semel.testing.virtual.trace import Trace
from tests.memory import peak_bytes
from tests.unit.testing.virtual.disk_with_file import disk_with_file

SEEDS = range(300)
LARGE_BYTES = 8 * 1024 * 1024


def outcomes(prepare: Callable[[VirtualDisk], None], path: str = "/data/a") -> Counter[bytes | None]:
    """What is at a path after the power cut, over many seeds. The folder and an empty file in it are durable."""
    seen: Counter[bytes | None] = Counter()
    for seed in SEEDS:
        disk = disk_with_file("/data/a", seed)
        prepare(disk)
        disk.crash()
        seen[read_file(disk, path) if disk.exists(path) else None] += 1
    return seen


def test_what_was_synced_survives_every_power_cut() -> None:
    def prepare(disk: VirtualDisk) -> None:
        file = disk.open("/data/a")
        file.write(0, b"old" * 5000)
        file.write(100, b"synced")
        file.truncate(9000)
        file.sync()

    expected = bytearray(b"old" * 3000)
    expected[100:106] = b"synced"
    assert set(outcomes(prepare)) == {bytes(expected)}


def test_an_unsynced_write_is_kept_or_lost_or_torn_at_any_byte() -> None:
    seen = outcomes(lambda disk: disk.open("/data/a").write(0, b"abc"))
    assert {b"", b"a", b"ab", b"abc"} <= set(seen)
    assert all(b"abc".startswith(content.rstrip(b"\0")) for content in seen if content is not None)


def test_a_later_write_may_survive_without_an_earlier_one_whose_hole_reads_as_zeros() -> None:
    def prepare(disk: VirtualDisk) -> None:
        file = disk.open("/data/a")
        file.write(0, b"1" * PAGE_BYTES)
        file.write(PAGE_BYTES, b"2" * PAGE_BYTES)
        file.write(2 * PAGE_BYTES, b"3" * PAGE_BYTES)

    with_the_second = [content for content in outcomes(prepare) if content and content[PAGE_BYTES:].startswith(b"2")]
    assert {content[:1] for content in with_the_second} == {b"1", b"\0"}


def test_writes_to_one_page_survive_in_the_order_they_were_made() -> None:
    def prepare(disk: VirtualDisk) -> None:
        file = disk.open("/data/a")
        for number in range(4):
            file.write(number, b"%d" % number)

    contents = {content.rstrip(b"\0") for content in outcomes(prepare) if content is not None}
    assert contents == {b"", b"0", b"01", b"012", b"0123"}


def test_the_size_may_survive_without_the_bytes_and_the_bytes_without_the_size() -> None:
    seen = outcomes(lambda disk: disk.open("/data/a").write(0, b"x" * PAGE_BYTES * 2))
    assert any(content and not content.strip(b"\0") for content in seen), "a size whose bytes are all zeros"
    assert any(content == b"" for content in seen)


def test_one_large_write_may_lose_any_of_its_pages() -> None:
    def prepare(disk: VirtualDisk) -> None:
        disk.open("/data/a").write(0, b"x" * PAGE_BYTES * 3)

    shapes = {
        tuple(content[page * PAGE_BYTES : page * PAGE_BYTES + 1] == b"x" for page in range(3))
        for content in outcomes(prepare)
        if content is not None
    }
    assert {(True, False, True), (False, True, False), (True, True, True), (False, False, False)} <= shapes


def test_an_unsynced_truncation_is_done_or_undone_and_never_shows_what_was_cut() -> None:
    def prepare(disk: VirtualDisk) -> None:
        file = disk.open("/data/a")
        file.write(0, b"oldold")
        file.sync()
        file.truncate(0)
        file.truncate(3)

    assert set(outcomes(prepare)) == {b"oldold", b"", b"\0\0\0"}


def test_an_unsynced_overwrite_leaves_the_old_bytes_or_the_new() -> None:
    def prepare(disk: VirtualDisk) -> None:
        file = disk.open("/data/a")
        file.write(0, b"old")
        file.sync()
        file.write(0, b"new")

    assert set(outcomes(prepare)) == {b"old", b"new", b"nld", b"ned"}


def test_a_synced_file_whose_name_was_not_synced_may_be_gone() -> None:
    def prepare(disk: VirtualDisk) -> None:
        file = disk.open("/data/b", create=True)
        file.write(0, b"synced")
        file.sync()

    assert set(outcomes(prepare, "/data/b")) == {None, b"synced"}


def test_a_name_survives_once_its_folder_was_synced_and_the_folders_above() -> None:
    def incomplete(disk: VirtualDisk) -> None:
        disk.make_folder("/data/f/g")
        disk.open("/data/f/g/b", create=True)
        disk.sync_directory("/data/f/g")
        disk.sync_directory("/data/f")

    def complete(disk: VirtualDisk) -> None:
        incomplete(disk)
        disk.sync_directory("/data")

    assert set(outcomes(incomplete, "/data/f/g/b")) == {None, b""}
    assert set(outcomes(complete, "/data/f/g/b")) == {b""}


def test_an_unsynced_removal_may_be_undone() -> None:
    def prepare(disk: VirtualDisk) -> None:
        disk.open("/data/a").write(0, b"x")
        disk.open("/data/a").sync()
        disk.remove("/data/a")

    assert set(outcomes(prepare)) == {None, b"x"}


def test_a_rename_is_atomic_one_name_leads_to_the_file_and_never_two_or_none() -> None:
    states = set()
    for seed in SEEDS:
        disk = disk_with_file("/data/a", seed)
        file = disk.open("/data/a")
        file.write(0, b"x")
        file.sync()
        disk.rename("/data/a", "/data/b")
        disk.crash()
        states.add(tuple(disk.list("/data")))
    assert states == {("a",), ("b",)}


def test_names_in_one_folder_survive_independently_but_a_name_keeps_its_order() -> None:
    states = set()
    for seed in SEEDS:
        disk = disk_with_file("/data/a", seed)
        disk.open("/data/b", create=True)
        disk.rename("/data/b", "/data/c")
        disk.open("/data/d", create=True)
        disk.crash()
        states.add(tuple(disk.list("/data")))
    assert states == {("a", *b_or_c, *d) for b_or_c in ((), ("b",), ("c",)) for d in ((), ("d",))}


def test_a_file_that_is_renamed_twice_has_one_of_its_three_names() -> None:
    states = set()
    for seed in SEEDS:
        disk = disk_with_file("/data/a", seed)
        disk.rename("/data/a", "/data/b")
        disk.rename("/data/b", "/data/c")
        disk.crash()
        states.add(tuple(disk.list("/data")))
    assert states == {("a",), ("b",), ("c",)}


def test_syncing_the_folder_that_a_file_moved_to_settles_the_one_it_came_from() -> None:
    for seed in SEEDS:
        disk = disk_with_file("/data/a", seed)
        disk.make_folder("/data/f")
        disk.sync_directory("/data")
        disk.open("/data/f/x", create=True)
        disk.rename("/data/f/x", "/data/x")
        disk.sync_directory("/data")
        disk.crash()
        assert (disk.list("/data"), disk.list("/data/f")) == (["a", "f", "x"], [])


def test_what_happens_in_a_folder_whose_creation_is_undone_is_undone_too() -> None:
    for seed in SEEDS:
        disk = disk_with_file("/data/a", seed)
        disk.make_folder("/data/f")
        disk.rename("/data/a", "/data/f/a")
        disk.crash()
        assert ("a" in disk.list("/data")) != disk.exists("/data/f/a")


def test_replacing_a_file_is_atomic_at_every_point_of_a_power_cut() -> None:
    """``replace_file`` promises the old content or the new, never a mixture, and after it returns only the new."""
    seen = set()
    for seed in range(20):
        for point in range(1, 10):
            disk = disk_with_file("/data/a", seed)
            replace_file(disk, "/data/x", b"old" * 2000)
            disk.crash_after(point)
            finished = True
            try:
                replace_file(disk, "/data/x", b"new" * 3000)
            except SimulatedCrash:
                finished = False
            disk.crash()
            content = read_file(disk, "/data/x")
            assert content == b"new" * 3000 or (content == b"old" * 2000 and not finished)
            seen.add((content[:3], finished))
    assert seen == {(b"old", False), (b"new", False), (b"new", True)}


def test_a_replacement_that_forgets_to_sync_is_caught() -> None:
    """The planted bug that this disk exists for: rename without a sync of the file leaves an empty or torn file."""

    def careless(disk: VirtualDisk) -> None:
        disk.open("/data/a.tmp", create=True).write(0, b"new")
        disk.rename("/data/a.tmp", "/data/a")
        disk.sync_directory("/data")

    assert {b"", b"new"} < set(outcomes(careless))


def test_death_of_the_process_keeps_what_was_written_and_frees_locks() -> None:
    disk = disk_with_file("/data/a")
    disk.lock("/data/.lock")
    file = disk.open("/data/a")
    file.write(0, b"x" * 10_000)
    disk.kill()
    disk.lock("/data/.lock")
    assert read_file(disk, "/data/a") == b"x" * 10_000
    with pytest.raises(SimulatedCrash, match="/data/a was opened by a process that is dead"):
        file.write(0, b"from the grave")
    file.close()


def test_what_was_written_before_the_death_of_the_process_is_still_lost_in_a_power_cut() -> None:
    disk = disk_with_file("/data/a")
    disk.open("/data/a").write(0, b"x")
    disk.kill()
    disk.crash(Unsynced.LOST)
    assert read_file(disk, "/data/a") == b""


def test_a_power_cut_can_be_asked_to_keep_or_lose_everything() -> None:
    for unsynced, expected in ((Unsynced.LOST, (b"old", ["a"])), (Unsynced.KEPT, (b"new", ["a", "b"]))):
        disk = disk_with_file("/data/a")
        file = disk.open("/data/a")
        file.write(0, b"old")
        file.sync()
        file.write(0, b"new")
        disk.open("/data/b", create=True)
        disk.crash(unsynced)
        assert (read_file(disk, "/data/a"), disk.list("/data")) == expected


def test_a_copy_is_another_disk_with_the_same_future() -> None:
    disk = disk_with_file("/data/a", 7)
    disk.open("/data/a").write(0, bytes(range(256)) * 100)
    disk.open("/data/b", create=True)
    copy = disk.copy()
    copy.open("/data/only-here", create=True)
    assert disk.list("/data") == ["a", "b"]
    twins = disk.copy(), disk.copy()
    for twin in twins:
        twin.crash()
    assert read_file(twins[0], "/data/a") == read_file(twins[1], "/data/a")
    assert twins[0].list("/data") == twins[1].list("/data")


def test_crash_after_strikes_in_exactly_that_operation_and_nothing_works_until_it_is_settled() -> None:
    disk = disk_with_file("/data/a")
    told: list[str] = []
    file = disk.open("/data/a")
    disk.crash_after(3, then=lambda: told.append("told"))
    file.write(0, b"1")
    file.read(0, 1)
    file.sync()
    assert told == []
    with pytest.raises(SimulatedCrash, match="died in write of /data/a"):
        file.write(1, b"2")
    assert told == ["told"]
    for use in (
        file.sync,
        lambda: disk.open("/data/a"),
        lambda: disk.list("/data"),
        lambda: disk.remove("/data/a"),
    ):
        with pytest.raises(SimulatedCrash):
            use()
    disk.crash()
    assert read_file(disk, "/data/a")[:1] == b"1"


def test_a_write_from_another_thread_waits_until_the_sync_is_over() -> None:
    """As under ``semel.testing.Broker``, whose worker is a real thread."""
    writers: list[threading.Thread] = []
    waited: list[bool] = []

    class Meddler(Trace):
        def record(self, text: str) -> None:
            if text == "disk: sync /a" and not writers:
                writers.append(threading.Thread(target=file.write, args=(0, b"new")))
                writers[0].start()
                writers[0].join(timeout=0.05)
                waited.append(writers[0].is_alive())

    disk = VirtualDisk(trace=Meddler(lambda: 0.0))
    file = disk.open("/a", create=True)
    disk.sync_directory("/")
    file.write(0, b"old")
    file.sync()
    writers[0].join()
    disk.crash(Unsynced.LOST)
    assert (waited, read_file(disk, "/a")) == ([True], b"old")


def test_small_appends_do_not_copy_the_file() -> None:
    """Two hundred thousand of them are usual, and each copy would be of all that was written before."""
    file = disk_with_file("/data/a").open("/data/a")
    file.write(0, bytes(LARGE_BYTES))
    positions = count(LARGE_BYTES, 10)

    def append() -> None:
        for position in islice(positions, 100):
            file.write(position, b"0123456789")

    append()  # And the buffer has room for more.
    assert peak_bytes(append) < LARGE_BYTES / 8


def test_syncing_after_every_append_does_not_copy_the_file() -> None:
    file = disk_with_file("/data/a").open("/data/a")
    file.write(0, bytes(LARGE_BYTES))
    file.sync()
    positions = count(LARGE_BYTES)

    def append() -> None:
        for position in islice(positions, 100):
            file.write(position, b"x")
            file.sync()

    append()
    assert peak_bytes(append) < LARGE_BYTES / 8
