"""The disk's contract, on the real disk and on the virtual one: what holds for one must hold for the other."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import StorageError
from semel.log import disk as disk_module
from semel.log.disk import Disk, SystemDisk, read_file, replace_file
from semel.testing.virtual.disk import VirtualDisk

Place = tuple[Disk, str]


@pytest.fixture(params=["system", "virtual"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A disk, and an empty folder on it."""
    if request.param == "system":
        return SystemDisk(), str(tmp_path)
    disk = VirtualDisk(Random(1))
    disk.make_folder("/data")
    return disk, "/data"


def test_what_is_written_is_read_back_at_its_position(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write(0, b"hello ")
    file.write_many(6, [b"wor", bytearray(b"l"), memoryview(b"d")])
    assert (file.size(), file.read(0, 100), file.read(4, 4), file.read(11, 5)) == (11, b"hello world", b"o wo", b"")


def test_many_buffers_are_written_as_one_after_the_other(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write_many(2, [bytes([number % 256]) * 3 for number in range(3000)])
    assert file.read(0, 20_000) == b"\0\0" + b"".join(bytes([number % 256]) * 3 for number in range(3000))


def test_what_is_written_and_synced_at_once_is_read_back_however_many_buffers_it_is(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write_many(2, [b"ab", bytearray(b"c")], sync=True)
    file.write_many(5, [bytes([number % 256]) for number in range(3000)], sync=True)
    assert file.read(0, 20_000) == b"\0\0abc" + bytes(number % 256 for number in range(3000))


def test_a_file_system_that_cannot_write_and_sync_in_one_call_does_it_in_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_RWF_DSYNC", 0x4000_0000)  # A flag that no kernel knows is refused like one.
    file = SystemDisk().open(f"{tmp_path}/a", create=True)
    file.write_many(0, [b"ab", b"c"], sync=True)
    assert file.read(0, 10) == b"abc"


def test_a_write_past_the_end_leaves_zeros_between(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write(10_000, b"x")
    assert file.read(0, 20_000) == bytes(10_000) + b"x"


def test_an_empty_write_past_the_end_changes_nothing(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write(10, b"")
    file.write_many(10, [])
    assert file.size() == 0


def test_truncation_cuts_and_extends(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write(0, b"abcdef")
    file.truncate(3)
    file.truncate(5)
    assert file.read(0, 10) == b"abc\0\0"


def test_opening_without_create_requires_the_file(place: Place) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/no/a", create=True)
    with pytest.raises(IsADirectoryError):
        disk.open(root)


def test_opening_again_shows_the_same_bytes_and_does_not_truncate(place: Place) -> None:
    disk, root = place
    one = disk.open(f"{root}/a", create=True)
    one.write(0, b"abc")
    other = disk.open(f"{root}/a", create=True)
    one.write(3, b"d")
    assert other.read(0, 10) == b"abcd"


def test_a_closed_file_is_of_no_use_and_may_be_closed_again(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.close()
    file.close()
    for use in (file.size, file.sync, lambda: file.read(0, 1), lambda: file.write(0, b"x"), lambda: file.truncate(0)):
        # Python refuses the descriptor -1 in some calls before the system does, in other words.
        with pytest.raises((OSError, ValueError), match="file descriptor"):
            use()


def test_an_open_file_outlives_its_name(place: Place) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.write(0, b"abc")
    disk.remove(f"{root}/a")
    file.write(3, b"d")
    file.sync()
    assert (file.read(0, 10), disk.exists(f"{root}/a")) == (b"abcd", False)


def test_folders_are_made_with_their_parents_and_listed_sorted(place: Place) -> None:
    disk, root = place
    disk.make_folder(f"{root}/c/d")
    disk.make_folder(f"{root}/c/d")
    disk.open(f"{root}/b", create=True)
    disk.open(f"{root}/a", create=True)
    assert (disk.list(root), disk.list(f"{root}/c")) == (["a", "b", "c"], ["d"])
    assert [disk.exists(f"{root}/{name}") for name in ("a", "c/d", "a/x", "no")] == [True, True, False, False]
    disk.sync_directory(f"{root}/c")


def test_missing_things_may_be_removed_and_folders_go_with_all_below(place: Place) -> None:
    disk, root = place
    disk.remove(f"{root}/no")
    disk.remove_folder(f"{root}/no")
    disk.make_folder(f"{root}/c/d")
    disk.open(f"{root}/c/d/a", create=True)
    disk.remove_folder(f"{root}/c")
    assert disk.list(root) == []


def test_rename_replaces_a_file_and_moves_a_folder_with_its_content(place: Place) -> None:
    disk, root = place
    disk.make_folder(f"{root}/f")
    for name, data in (("a", b"new"), ("b", b"old"), ("f/x", b"below")):
        disk.open(f"{root}/{name}", create=True).write(0, data)
    disk.rename(f"{root}/a", f"{root}/b")
    disk.rename(f"{root}/f", f"{root}/g")
    assert disk.list(root) == ["b", "g"]
    assert (read_file(disk, f"{root}/b"), read_file(disk, f"{root}/g/x")) == (b"new", b"below")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda disk, root: disk.rename(f"{root}/no", f"{root}/x"),
        lambda disk, root: disk.rename(f"{root}/file", f"{root}/no/x"),
        lambda disk, root: disk.rename(f"{root}/file", f"{root}/folder"),
        lambda disk, root: disk.rename(f"{root}/folder", f"{root}/file"),
        lambda disk, root: disk.rename(f"{root}/empty", f"{root}/folder"),
        lambda disk, root: disk.rename(f"{root}/folder", f"{root}/folder/below"),
        lambda disk, root: disk.rename(f"{root}/folder/x", f"{root}/folder"),
        lambda disk, root: disk.remove(f"{root}/folder"),
        lambda disk, root: disk.remove_folder(f"{root}/file"),
        lambda disk, root: disk.make_folder(f"{root}/file"),
        lambda disk, root: disk.make_folder(f"{root}/file/below"),
        lambda disk, root: disk.list(f"{root}/no"),
        lambda disk, root: disk.list(f"{root}/file"),
        lambda disk, root: disk.sync_directory(f"{root}/no"),
        lambda disk, root: disk.lock(f"{root}/no/lock"),
    ],
)
def test_what_the_operating_system_refuses_is_refused_in_the_same_words(
    wrong: Callable[[Disk, str], object], tmp_path: Path
) -> None:
    refusals = []
    for disk, root in ((SystemDisk(), str(tmp_path)), (VirtualDisk(), "/data")):
        disk.make_folder(f"{root}/folder")
        disk.make_folder(f"{root}/empty")
        disk.open(f"{root}/file", create=True)
        disk.open(f"{root}/folder/x", create=True)
        with pytest.raises(OSError, match=r"\[Errno \d+\]") as refusal:
            wrong(disk, root)
        refusals.append((type(refusal.value), errno.errorcode[refusal.value.errno or 0]))
    assert refusals[0] == refusals[1]


def test_replacing_a_file_leaves_the_new_content_and_nothing_beside_it(place: Place) -> None:
    disk, root = place
    replace_file(disk, f"{root}/a", b"one")
    replace_file(disk, f"{root}/a", b"2")
    assert (disk.list(root), read_file(disk, f"{root}/a")) == (["a"], b"2")


def test_a_lock_is_held_once_and_its_holder_is_named(place: Place) -> None:
    disk, root = place
    lock = disk.lock(f"{root}/.lock")
    with pytest.raises(StorageError, match=rf"{root} is in use by another broker \(semel pid \d+\)"):
        disk.lock(f"{root}/.lock")
    lock.release()
    lock.release()
    disk.lock(f"{root}/.lock").release()


def test_free_space_is_a_number_of_bytes(place: Place) -> None:
    disk, root = place
    assert disk.free_bytes(root) > 0


_names = st.sampled_from(["a", "b", "f", "f/a", "f/g", "f/g/a", "h"])
_sizes = st.integers(0, 9000)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), _names, _sizes, st.integers(0, 300)),
        st.tuples(st.just("truncate"), _names, _sizes),
        st.tuples(st.sampled_from(["make_folder", "remove", "remove_folder", "list", "exists", "read"]), _names),
        st.tuples(st.just("rename"), _names, _names),
    ),
    max_size=25,
)


@settings(max_examples=120)
@given(_steps)
def test_any_sequence_of_operations_has_the_same_outcome_on_both_disks(steps: list[tuple[Any, ...]]) -> None:
    root = tempfile.mkdtemp()
    try:
        real, virtual = SystemDisk(), VirtualDisk()
        virtual.make_folder("/data")
        for step in steps:
            assert _outcome(real, root, *step) == _outcome(virtual, "/data", *step), step
        assert _tree(real, root) == _tree(virtual, "/data")
        virtual.kill()
        assert _tree(real, root) == _tree(virtual, "/data")
        assert _tree(virtual.copy(), "/data") == _tree(virtual, "/data")
    finally:
        shutil.rmtree(root)


def _outcome(disk: Disk, root: str, operation: str, name: str, *arguments: Any) -> object:
    path = f"{root}/{name}"
    try:
        match operation:
            case "write":
                position, size = arguments
                file = disk.open(path, create=True)
                file.write(position, Random(size).randbytes(size))
                file.close()
            case "truncate":
                file = disk.open(path)
                file.truncate(arguments[0])
                file.close()
            case "read":
                return read_file(disk, path)
            case "rename":
                disk.rename(path, f"{root}/{arguments[0]}")
            case _:
                return getattr(disk, operation)(path)
    except OSError as error:
        return type(error), error.errno
    return None


def _tree(disk: Disk, folder: str) -> dict[str, object]:
    tree: dict[str, object] = {}
    for name in disk.list(folder):
        try:
            tree[name] = read_file(disk, f"{folder}/{name}")
        except IsADirectoryError:
            tree[name] = _tree(disk, f"{folder}/{name}")
    return tree
