"""The store's two files: what was acknowledged survives any damage of one of them, and damage of both is refused."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import StorageError
from semel.metadata import change_file, copies
from semel.metadata.embedded import EmbeddedStore
from semel.metadata.store import compare_and_set
from semel.metadata.store_files import identity_in
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from tests.unit.metadata.stores import COPY, FOLDER, PATH, everything, new_disk, with_store

Damage = Callable[[bytes], bytes | None]


def content(disk: VirtualDisk, path: str) -> bytes:
    with contextlib.closing(disk.open(path)) as file:
        return file.read(0, file.size())


def put(disk: VirtualDisk, path: str, data: bytes | None) -> None:
    if data is None:
        disk.remove(path)
        disk.sync_directory(FOLDER)
        return
    with contextlib.closing(disk.open(path, create=True)) as file:
        file.truncate(0)
        file.write(0, data)
        file.sync()
    disk.sync_directory(FOLDER)


async def three_changes(store: EmbeddedStore) -> None:
    for n in range(3):
        await compare_and_set(store, f"/{n}", b"value %d" % n, None)


EXPECTED = {f"/{n}": b"value %d" % n for n in range(3)}


def written() -> VirtualDisk:
    disk = new_disk()
    with_store(three_changes, disk)
    return disk


def damages(whole: bytes) -> Iterator[bytes | None]:
    """Every flip, cut and zeroed end of a file, its absence, and every older copy of it."""
    yield None
    for position in range(len(whole)):
        yield whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :]
        yield whole[:position]
        yield whole[:position].ljust(len(whole), b"\0")


@pytest.mark.parametrize("path", [PATH, COPY])
def test_any_damage_of_one_file_is_repaired_from_the_other(path: str, caplog: pytest.LogCaptureFixture) -> None:
    whole = written()
    for damaged in damages(content(whole, path)):
        disk = whole.copy()
        put(disk, path, damaged)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert with_store(everything, disk) == EXPECTED
        assert path in caplog.text or damaged == content(whole, path)
        assert content(disk, PATH) == content(disk, COPY) == content(whole, PATH)
        # The next damage of the other file finds a sound one again.
        put(disk, COPY if path == PATH else PATH, None)
        assert with_store(everything, disk) == EXPECTED


def test_a_file_that_cannot_be_read_is_made_again() -> None:
    disk = written()
    disk.fail(DiskFault(Operation.READ, PATH))
    assert with_store(everything, disk) == EXPECTED


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_with_both_files_damaged_a_start_is_refused_with_both_named_and_nothing_is_written(data: st.DataObject) -> None:
    disk = written()
    for path in (PATH, COPY):
        whole = content(disk, path)
        position = data.draw(st.integers(0, len(whole) - 1))
        kind = data.draw(st.sampled_from(["flip", "zero", "garbage behind"]))
        if kind == "flip":
            put(disk, path, whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        elif kind == "zero":
            put(disk, path, whole[:position].ljust(len(whole), b"\0"))
        else:
            put(disk, path, whole + b"?" * (position + 1))
    before = content(disk, PATH), content(disk, COPY)
    with pytest.raises(StorageError) as refusal:
        with_store(everything, disk)
    for said in (f"{PATH} is", f"{COPY} is", "semel log repair /data --accept-loss metadata"):
        assert said in str(refusal.value)
    assert (content(disk, PATH), content(disk, COPY)) == before


def test_the_last_change_damaged_in_both_files_is_refused_and_the_last_sound_copy_named() -> None:
    disk = written()
    for path in (PATH, COPY):
        put(disk, path, content(disk, path)[:-1])
    with pytest.raises(StorageError, match=r"The last sound copy is /data/metadata up to change 2"):
        with_store(everything, disk)


def test_an_older_file_beside_a_damaged_one_is_refused() -> None:
    disk = new_disk()
    with_store(lambda store: compare_and_set(store, "/0", b"value 0", None), disk)
    older = content(disk, PATH)

    async def two_more(store: EmbeddedStore) -> None:
        await compare_and_set(store, "/1", b"value 1", None)
        await compare_and_set(store, "/2", b"value 2", None)

    with_store(two_more, disk)
    put(disk, PATH, older)
    assert with_store(everything, disk.copy()) == EXPECTED
    damaged = bytearray(content(disk, COPY))
    damaged[20] ^= 1
    put(disk, COPY, bytes(damaged))
    with pytest.raises(StorageError, match=r"/data/metadata is sound and ends with change 1; /data/metadata.copy is"):
        with_store(everything, disk)


def test_two_sound_files_that_say_different_things_are_refused() -> None:
    disk, other = new_disk(), new_disk()
    with_store(lambda store: compare_and_set(store, "/a", b"here", None), disk)
    with_store(lambda store: compare_and_set(store, "/a", b"there", None), other)
    put(disk, COPY, content(other, COPY))
    with pytest.raises(StorageError, match=r"say different things"):
        with_store(everything, disk)


def test_no_death_in_any_disk_operation_leaves_both_files_unsound() -> None:
    """So two unsound files are damage, for certain."""
    for seed in range(5):
        for operations in range(1, 60):
            disk = new_disk(seed)
            disk.crash_after(operations)
            try:
                with_store(three_changes, disk, seed=seed)
            except SimulatedCrash:
                pass
            else:
                break
            disk.crash()
            found = copies.look(disk, PATH)
            assert any(file.is_whole for file in found) or all(file.is_missing for file in found), found
            first, second = found
            if not first.is_missing and not second.is_missing:
                assert first.sequence_seen >= second.sequence_seen
        else:
            pytest.fail("the changes need more operations than that")


# -- the file of an earlier version -----------------------------------------------------------------------------------


def of_an_earlier_version(data: bytes) -> VirtualDisk:
    disk = new_disk()
    put(disk, PATH, b"semelmd\x01" + data[len(change_file.HEADER) :])
    return disk


def test_a_store_of_one_file_is_upgraded_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    disk = of_an_earlier_version(content(written(), PATH))
    assert with_store(everything, disk) == EXPECTED
    assert content(disk, PATH) == content(disk, COPY) == content(written(), PATH)
    assert caplog.records == []


def test_an_upgrade_that_is_interrupted_anywhere_is_finished_by_the_next_start() -> None:
    for operations in range(1, 40):
        disk = of_an_earlier_version(content(written(), PATH))
        disk.crash_after(operations)
        try:
            with_store(everything, disk)
        except SimulatedCrash:
            disk.crash()
            assert with_store(everything, disk) == EXPECTED
            assert content(disk, PATH) == content(disk, COPY) == content(written(), PATH)
        else:
            return
    pytest.fail("the upgrade needs more operations than that")


def test_the_torn_end_of_a_store_of_one_file_is_cut_off_and_the_file_kept(caplog: pytest.LogCaptureFixture) -> None:
    whole = content(written(), PATH)
    disk = of_an_earlier_version(whole[:-3])
    torn = content(disk, PATH)
    assert with_store(everything, disk) == {"/0": b"value 0", "/1": b"value 1"}
    assert content(disk, PATH + ".before-upgrade") == torn
    assert "/data/metadata.before-upgrade" in caplog.text


def test_a_damaged_store_of_one_file_is_refused() -> None:
    damaged = bytearray(content(written(), PATH))
    damaged[20] ^= 1
    with pytest.raises(StorageError, match=r"damaged"):
        with_store(everything, of_an_earlier_version(bytes(damaged)))


# -- files that are not there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", ["journal.0", "recovery-point-offset-checkpoint", "orders-0/partition.metadata"])
def test_missing_files_beside_logs_are_refused(trace: str) -> None:
    disk = new_disk()
    if "/" in trace:
        disk.make_folder(f"{FOLDER}/orders-0")
    put(disk, f"{FOLDER}/{trace}", b"")
    name = trace.partition("/")[0]
    with pytest.raises(StorageError, match=rf"metadata.copy are missing, and /data holds logs \({name}\)"):
        with_store(everything, disk)
    assert not disk.exists(PATH)


@pytest.mark.parametrize("name", ["lost+found-1", "notes-2024", "backup.tar"])
def test_what_is_no_log_does_not_hinder_a_new_store(name: str) -> None:
    disk = new_disk()
    put(disk, f"{FOLDER}/{name}", b"")
    assert with_store(everything, disk) == {}


def test_the_store_says_whose_directory_it_is() -> None:
    disk = new_disk()
    assert identity_in(disk, PATH, node_id=1) is None
    with_store(everything, disk)
    assert identity_in(disk, PATH, node_id=1) is None

    async def found(store: EmbeddedStore) -> None:
        await compare_and_set(store, "/cluster/id", b"abc", None)

    with_store(found, disk)
    identity = identity_in(disk, PATH, node_id=7)
    assert identity is not None
    assert (identity.cluster_id, identity.node_id) == ("abc", 7)
    topic = b'{"configs":{},"id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":[[3,0,0,[3],[3]]]}'
    with_store(lambda store: compare_and_set(store, "/topics/orders", topic, None), disk)
    with pytest.raises(StorageError, match=r"/data/metadata has topics of node 3; node.id is 7"):
        identity_in(disk, PATH, node_id=7)
