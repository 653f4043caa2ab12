"""What every metadata store promises, on each: the embedded one, and ZooKeeper's over a model and over a real one.

The real one also answers through a proxy that delays every answer, and loses one of a few with the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from semel.errors import StorageError
from semel.metadata.store import Check, Delete, MetadataStore, Operation, Put, VersionConflict, compare_and_set
from semel.metadata.zookeeper.kazoo_session import KazooSession
from semel.metadata.zookeeper.store import ZooKeeperStore
from tests.metadata.cutting_proxy import CuttingProxy
from tests.unit.metadata.stores import everything, with_store
from tests.unit.metadata.zookeepers import FOLDERS, World, with_zookeeper
from tools.patience import PATIENCE_S
from tools.zookeeper import ZooKeeperServer, running

Use = Callable[[MetadataStore], Awaitable[Any]]
Run = Callable[[Use], Any]

# More than a store reads at once.
ANSWERS_PER_CUT = 40


def on_the_embedded_store(use: Use) -> Any:
    return with_store(use)


def on_a_model_of_zookeeper(use: Use) -> Any:
    async def in_the_world(world: World) -> Any:
        return await use(await world.store())

    return with_zookeeper(in_the_world)


def on_zookeeper(address: str) -> Run:
    return lambda use: asyncio.run(_in_a_folder_of_its_own(address, use))


async def _in_a_folder_of_its_own(address: str, use: Use) -> Any:
    session = KazooSession(f"{address}/{uuid4().hex}", timeout_s=30.0)
    await session.start(timeout_s=PATIENCE_S)
    try:
        store = await ZooKeeperStore.open(
            session,
            author="broker",
            incarnation="a",
            ephemeral_folders=FOLDERS,
            commit_timeout_s=PATIENCE_S,
        )
        return await use(store)
    finally:
        await session.close()


def through_a_bad_proxy(port: int) -> Run:
    def run(use: Use) -> Any:
        async def behind_it() -> Any:
            proxy = CuttingProxy(port, delay_s=0.005, cut_after=ANSWERS_PER_CUT)
            await proxy.start()

            async def begin(store: MetadataStore) -> Any:
                proxy.loses_next = True
                return await use(store)

            try:
                return await _in_a_folder_of_its_own(proxy.address, begin)
            finally:
                proxy.close()
                assert proxy.cuts > 0, "no answer was lost: this proves nothing"

        return asyncio.run(behind_it())

    return run


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(
    params=[
        "embedded",
        "model",
        pytest.param("zookeeper", marks=pytest.mark.needs("java")),
        pytest.param("proxy", marks=pytest.mark.needs("java"), id="zookeeper behind a proxy"),
    ]
)
def on_a_store(request: pytest.FixtureRequest) -> Run:
    if request.param == "zookeeper":
        return on_zookeeper(request.getfixturevalue("zookeeper").address)
    if request.param == "proxy":
        return through_a_bad_proxy(request.getfixturevalue("zookeeper").port)
    return on_the_embedded_store if request.param == "embedded" else on_a_model_of_zookeeper


def test_a_value_is_written_once_and_then_only_over_its_version(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        assert await store.get("/a") is None
        first = await compare_and_set(store, "/a", b"1", None)
        second = await compare_and_set(store, "/a", b"2", first)
        assert await store.get("/a") == (b"2", second)
        for wrong in (None, first):
            with pytest.raises(VersionConflict) as conflict:
                await compare_and_set(store, "/a", b"3", wrong)
            assert (conflict.value.path, conflict.value.version) == ("/a", second)
        with pytest.raises(VersionConflict, match="/b is absent; expected it to be at version 1"):
            await compare_and_set(store, "/b", b"", 1)
        assert await everything(store) == {"/a": b"2"}

    on_a_store(use)


def test_a_value_deleted_and_written_again_has_another_version(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        first = await compare_and_set(store, "/a", b"1", None)
        await store.commit([Delete("/a", first)])
        assert await store.get("/a") is None
        again = await compare_and_set(store, "/a", b"1", None)
        assert again != first
        with pytest.raises(VersionConflict):
            await store.commit([Delete("/a", first)])
        await store.commit([Delete("/a", again)])

    on_a_store(use)


def test_a_commit_is_all_or_nothing(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        (version, _) = await store.commit([Put("/a", b"1", None), Check("/z", None)])
        assert version is not None
        refused: list[list[Operation]] = [
            [Put("/b", b"1", None), Delete("/a", version), Put("/c", b"", 9)],
            [Put("/b", b"1", None), Check("/a", None)],
        ]
        for operations in refused:
            with pytest.raises(VersionConflict):
                await store.commit(operations)
        assert await everything(store) == {"/a": b"1"}
        (later, _) = await store.commit([Put("/b", b"1", None), Check("/a", version)])
        assert later is not None
        assert later > version

    on_a_store(use)


def test_of_two_writers_of_the_same_version_one_is_told_of_the_conflict(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        results = await asyncio.gather(
            *(compare_and_set(store, "/a", bytes([n]), None) for n in range(10)), return_exceptions=True
        )
        assert sorted(isinstance(result, VersionConflict) for result in results) == [False] + [True] * 9

    on_a_store(use)


def test_children_are_the_names_directly_below(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        await store.commit([Put(path, b"", None) for path in ("/b/y", "/b/x", "/b/x/deep", "/bc", "/a")])
        assert await store.children("/b") == ["x", "y"]
        assert await store.children("/") == await store.children("") == ["a", "b", "bc"]
        assert await store.children("/b/y") == await store.children("/nowhere") == []
        inner = await store.get("/b/x")
        assert inner is not None
        await store.commit([Delete("/b/x", inner.version)])
        assert await store.get("/b/x") is None
        assert await store.children("/b") == ["x", "y"], "there is still something below it"

    on_a_store(use)


def test_a_watch_is_called_before_the_author_is_answered(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        seen: list[str] = []
        stop = store.watch("/topics", seen.append)
        version = await compare_and_set(store, "/topics/a", b"1", None)
        assert seen == ["/topics/a"]
        await compare_and_set(store, "/topicsandmore", b"1", None)
        await store.commit([Delete("/topics/a", version)])
        assert seen == ["/topics/a", "/topics/a"]
        stop()
        await compare_and_set(store, "/topics/b", b"1", None)
        assert seen == ["/topics/a", "/topics/a"]

    on_a_store(use)


def test_an_ephemeral_value_is_there_and_can_be_written_over(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        (first,) = await store.commit([Put("/brokers/1", b"a", None, ephemeral=True)])
        (second,) = await store.commit([Put("/brokers/1", b"b", first, ephemeral=True)])
        assert await store.get("/brokers/1") == (b"b", second)
        assert await store.children("/brokers") == ["1"]
        assert second != first

    on_a_store(use)


def test_nothing_is_taken_after_close(on_a_store: Run) -> None:
    async def use(store: MetadataStore) -> None:
        await store.close()
        with pytest.raises(StorageError, match="closed"):
            await compare_and_set(store, "/a", b"1", None)

    on_a_store(use)
