"""The embedded store beyond the contract of all stores: nothing acknowledged that a power cut could take back."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Sequence

import pytest

from semel.errors import StorageError
from semel.metadata.embedded import EmbeddedStore
from semel.metadata.store import Check, Delete, Operation, Put, VersionConflict, compare_and_set
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault
from semel.testing.virtual.disk_faults import Operation as DiskOperation
from tests.unit.metadata.stores import COPY, PATH, everything, new_disk, with_store


def test_a_change_is_not_seen_before_it_is_synced() -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> None:
        syncs = disk.statistics.syncs
        writing = asyncio.ensure_future(compare_and_set(store, "/a", b"1", None))
        while disk.statistics.syncs == syncs:
            assert await store.get("/a") is None
            await asyncio.sleep(0.0001)
        await writing
        assert await store.get("/a") is not None

    with_store(use, disk)


def test_watches_hear_of_a_change_before_its_author_does() -> None:
    async def use(store: EmbeddedStore) -> None:
        heard: list[str] = []
        store.watch("/topics", heard.append)
        stop = store.watch("/", lambda path: heard.append(f"root {path}"))
        await store.commit([Put("/topics", b"", None), Put("/topics/a", b"", None), Put("/topicsx", b"", None)])
        assert heard == ["/topics", "/topics/a", "root /topics", "root /topics/a", "root /topicsx"]
        stop()
        heard.clear()
        with contextlib.suppress(VersionConflict):
            await store.commit([Delete("/topics/a", 99)])
        assert heard == []
        await store.commit([Delete("/topics/a", 1)])
        assert heard == ["/topics/a"]

    with_store(use)


def test_a_caller_that_gives_up_leaves_a_store_that_goes_on() -> None:
    async def use(store: EmbeddedStore) -> None:
        begun = asyncio.ensure_future(compare_and_set(store, "/begun", b"", None))
        waiting = asyncio.ensure_future(compare_and_set(store, "/waiting", b"", None))
        await asyncio.sleep(0)
        begun.cancel()
        waiting.cancel()
        await compare_and_set(store, "/after", b"", None)
        # What was on its way to the disk happened; what only waited did not.
        assert await everything(store) == {"/begun": b"", "/after": b""}

    with_store(use)


def test_ephemeral_values_end_with_the_process() -> None:
    disk = new_disk()

    async def first(store: EmbeddedStore) -> None:
        (version,) = await store.commit([Put("/brokers/1", b"here", None, ephemeral=True)])
        assert version is not None
        await store.commit([Put("/brokers/1", b"there", version, ephemeral=True), Put("/kept", b"", None)])
        assert await everything(store) == {"/brokers/1": b"there", "/kept": b""}
        await store.close()
        assert await store.get("/brokers/1") is None
        with pytest.raises(StorageError, match="closed"):
            await compare_and_set(store, "/late", b"", None)

    async def second(store: EmbeddedStore) -> dict[str, bytes]:
        return await everything(store)

    with_store(first, disk)
    assert with_store(second, disk) == {"/kept": b""}


def test_closing_waits_for_what_was_submitted() -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> None:
        submitted = [asyncio.ensure_future(compare_and_set(store, f"/{n}", b"", None)) for n in range(5)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*submitted)

    with_store(use, disk)
    assert len(with_store(everything, disk)) == 5


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [PATH, COPY])
@pytest.mark.parametrize("operation", [DiskOperation.WRITE, DiskOperation.SYNC])
def test_after_a_failed_write_or_sync_no_change_is_accepted_and_reads_go_on(
    operation: DiskOperation, path: str
) -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> None:
        await compare_and_set(store, "/a", b"1", None)
        disk.fail(DiskFault(operation, path))
        first = asyncio.ensure_future(compare_and_set(store, "/b", b"1", None))
        waiting = asyncio.ensure_future(compare_and_set(store, "/c", b"1", None))
        with pytest.raises(StorageError, match="not known"):
            await first
        with pytest.raises(StorageError, match="no change of metadata is accepted until a restart"):
            await waiting
        # The disk works again, but what it lost is lost: a sync that succeeds now proves nothing.
        with pytest.raises(StorageError, match="no change of metadata is accepted until a restart"):
            await compare_and_set(store, "/d", b"1", None)
        assert await everything(store) == {"/a": b"1"}

    with_store(use, disk)
    disk.crash()
    assert with_store(everything, disk).items() >= {("/a", b"1")}


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("path", [PATH, COPY])
def test_a_change_for_which_there_is_no_room_is_taken_back_and_the_next_one_is_tried(path: str, error: int) -> None:
    for seed in range(5):
        disk = new_disk(seed)

        async def use(store: EmbeddedStore, disk: VirtualDisk = disk) -> None:
            version = await compare_and_set(store, "/a", b"1", None)
            disk.fail(DiskFault(DiskOperation.WRITE, path, error=error, times=2))
            for _ in range(2):
                with pytest.raises(StorageError, match=f"{path} could not be written .*; nothing was changed"):
                    await compare_and_set(store, "/a", b"2", version)
            assert await everything(store) == {"/a": b"1"}

        with_store(use, disk, seed=seed)
        afterwards = disk.copy()
        afterwards.crash()
        assert with_store(everything, afterwards, seed=seed) == {"/a": b"1"}

        async def again(store: EmbeddedStore, disk: VirtualDisk = disk) -> None:
            known = await store.get("/a")
            assert known is not None
            disk.fail(DiskFault(DiskOperation.WRITE, path, error=error))
            with contextlib.suppress(StorageError):
                await compare_and_set(store, "/b", b"0" * 1000, None)
            await compare_and_set(store, "/a", b"3", known.version)

        with_store(again, disk, seed=seed)
        disk.crash()
        assert with_store(everything, disk, seed=seed) == {"/a": b"3"}


def test_a_change_that_cannot_be_taken_back_ends_all_changes() -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> None:
        await compare_and_set(store, "/a", b"1", None)
        disk.fail(DiskFault(DiskOperation.WRITE, PATH, error=errno.ENOSPC))
        disk.fail(DiskFault(DiskOperation.TRUNCATE, PATH))
        with pytest.raises(StorageError, match="not known"):
            await compare_and_set(store, "/b", b"1", None)
        with pytest.raises(StorageError, match="until a restart"):
            await compare_and_set(store, "/b", b"1", None)

    with_store(use, disk)
    disk.crash()
    assert with_store(everything, disk) == {"/a": b"1"}


def test_a_disk_that_fills_up_and_has_room_again_takes_changes_again() -> None:
    disk = new_disk()
    kept: dict[str, bytes] = {}

    async def use(store: EmbeddedStore) -> None:
        disk.capacity_bytes = disk.used_bytes() + 1000
        refused = 0
        for n in range(40):
            try:
                await compare_and_set(store, f"/{n}", b"x" * 30, None)
                kept[f"/{n}"] = b"x" * 30
            except StorageError:
                refused += 1
        assert refused > 10
        disk.capacity_bytes = None
        await compare_and_set(store, "/room", b"", None)

    with_store(use, disk)
    disk.crash()
    assert with_store(everything, disk) == {**kept, "/room": b""}


@pytest.mark.parametrize("path", [PATH, COPY])
@pytest.mark.parametrize("operation", [DiskOperation.CREATE, DiskOperation.WRITE, DiskOperation.SYNC])
def test_a_rewrite_for_which_there_is_no_room_leaves_the_old_file_in_use(operation: DiskOperation, path: str) -> None:
    disk = new_disk()
    disk.fail(DiskFault(operation, path + ".tmp", error=errno.ENOSPC, times=None, skip=1))

    async def use(store: EmbeddedStore) -> None:
        version = None
        for n in range(100):
            version = await compare_and_set(store, "/a", b"%d" % n, version)

    with_store(use, disk, rewrite_size_bytes_min=300)
    disk.crash()
    assert with_store(everything, disk) == {"/a": b"99"}


@pytest.mark.parametrize("operation", [DiskOperation.RENAME, DiskOperation.SYNC_DIRECTORY])
def test_a_rewrite_that_fails_half_way_ends_all_changes(operation: DiskOperation) -> None:
    disk = new_disk()
    done = -1

    async def use(store: EmbeddedStore) -> None:
        nonlocal done
        disk.fail(DiskFault(operation))
        version = None
        for n in range(100):
            version = await compare_and_set(store, "/a", b"%d" % n, version)
            done = n

    with pytest.raises(StorageError, match="no change of metadata is accepted"):
        with_store(use, disk, rewrite_size_bytes_min=300)
    assert 0 <= done < 99
    disk.crash()
    assert with_store(everything, disk) == {"/a": b"%d" % done}


def test_a_file_that_is_mostly_garbage_is_rewritten_and_keeps_values_and_versions() -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> tuple[dict[str, bytes], int | None]:
        await compare_and_set(store, "/kept", b"x", None)
        version = None
        for n in range(2000):
            version = await compare_and_set(store, "/counter", b"%d" % n, version)
        return await everything(store), version

    expected, version = with_store(use, disk, rewrite_size_bytes_min=1000)
    with contextlib.closing(disk.open(PATH)) as file:
        assert file.size() < 3000

    async def reopened(store: EmbeddedStore) -> None:
        assert await everything(store) == expected
        assert await compare_and_set(store, "/counter", b"", version) == (version or 0) + 1

    with_store(reopened, disk)


# -- crashes ----------------------------------------------------------------------------------------------------------

# Each is one commit. The last ones make the file mostly garbage, so that it is rewritten in the middle.
COMMITS: list[Sequence[Operation]] = [
    [Put("/topics/a", b"a" * 30, None)],
    [Put("/topics/b", b"b" * 5000, None), Put("/config", b"{}", None)],
    [Put("/topics/a", b"A" * 20, 1), Check("/config", 2)],
    [Delete("/topics/b", 2)],
    [Put("/topics/b", b"again", None), Put("/config", b"{1}", 2)],
    *([Put("/config", b"%d" % n, n - 1)] for n in range(6, 12)),
]


def states() -> list[dict[str, bytes]]:
    """What the store holds after none, the first, the first two, ... of the commits."""
    values: dict[str, bytes] = {}
    after = [dict(values)]
    for commit in COMMITS:
        for operation in commit:
            match operation:
                case Put(path, value):
                    values[path] = value
                case Delete(path):
                    del values[path]
                case Check():
                    pass
        after.append(dict(values))
    return after


@pytest.mark.parametrize("power_cut", [True, False], ids=["power cut", "kill"])
def test_a_death_in_any_disk_operation_leaves_every_acknowledged_change_and_no_half_one(power_cut: bool) -> None:
    for seed in range(3):
        operations = 1
        while _die(operations, seed, power_cut):
            operations += 1
        assert operations > 25, "the commits end before the interesting operations"


def _die(operations: int, seed: int, power_cut: bool) -> bool:
    """Die in the n-th disk operation and check what is left; False if all is done before."""
    disk = new_disk(seed)
    acknowledged = 0

    async def use(store: EmbeddedStore) -> None:
        nonlocal acknowledged
        for commit in COMMITS:
            await store.commit(commit)
            acknowledged += 1

    disk.crash_after(operations)
    died = False
    try:
        with_store(use, disk, seed=seed, rewrite_size_bytes_min=2000)
    except SimulatedCrash:
        died = True
    disk.repair()
    if power_cut:
        disk.crash()
    else:
        disk.kill()

    async def go_on(store: EmbeddedStore) -> dict[str, bytes]:
        shown = await everything(store)
        await compare_and_set(store, "/later", b"value", None)
        return shown

    untouched = disk.copy()
    left = with_store(go_on, disk, seed=seed)
    assert left in states()[acknowledged : acknowledged + 2], (operations, acknowledged)
    # What a start has shown, and what it acknowledged, must survive the next power cut, whatever the last death left
    # unsynced.
    disk.crash()
    assert with_store(everything, disk, seed=seed) == {**left, "/later": b"value"}
    assert with_store(everything, untouched, seed=seed) == left
    untouched.crash()
    assert with_store(everything, untouched, seed=seed) == left
    return died
