"""The store over ZooKeeper where that promises less: stale reads, late watches, lost answers, sessions that expire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from semel.errors import StorageError
from semel.metadata.store import Check, Delete, Put, VersionConflict, compare_and_set
from semel.metadata.zookeeper.session import Create, Node, Remove, SessionState, SetData, Write
from semel.metadata.zookeeper.store import ZooKeeperStore
from semel.metadata.zookeeper.znode_tree import ZnodeTree
from semel.testing.simulation import seeds
from semel.testing.virtual.latency import uniform_ms
from semel.testing.virtual.links import Link
from tests.unit.metadata.stores import everything
from tests.unit.metadata.zookeepers import FOLDERS, SERVERS, World, with_zookeeper
from tools.counting import count_up


async def until_equal(*stores: ZooKeeperStore) -> dict[str, bytes]:
    """What all of them hold, once that is the same."""
    while True:
        contents = [await everything(store) for store in stores]
        if all(content == contents[0] for content in contents):
            return contents[0]
        await asyncio.sleep(0.01)


def test_a_change_reaches_the_other_stores_by_their_watches() -> None:
    async def use(world: World) -> None:
        one, other = await world.store("one"), await world.store("other", servers=("zk-2",))
        seen: list[str] = []
        other.watch("/topics", seen.append)
        await one.commit([Put("/topics/a", b"1", None), Put("/topics/b", b"1", None)])
        assert await until_equal(one, other) == {"/topics/a": b"1", "/topics/b": b"1"}
        assert seen == ["/topics/a", "/topics/b"]
        for number in range(100):  # More than the history holds.
            await compare_and_set(one, f"/config/{number}", b"x", None)
        assert len(await until_equal(one, other)) == 102

    with_zookeeper(use)


def test_a_store_follows_the_others_again_after_a_read_that_zookeeper_has_refused() -> None:
    async def use(world: World) -> None:
        following, writing = await world.store("following"), await world.store("writing")
        session = world.sessions["following"]
        get = session.get

        async def refused(path: str, watch: Callable[[], None] | None = None) -> Node | None:
            raise StorageError("no right to read")

        session.get = refused  # type: ignore[method-assign]
        await compare_and_set(writing, "/a", b"1", None)
        await asyncio.sleep(5)
        session.get = get  # type: ignore[method-assign]
        assert await until_equal(following, writing) == {"/a": b"1"}

    with_zookeeper(use)


def test_a_store_that_is_behind_decides_again_and_conflicts_only_with_the_newest() -> None:
    async def use(world: World) -> None:
        writer, reader = await world.store("writer", servers=("zk-1",)), await world.store("reader", servers=("zk-2",))
        version = await compare_and_set(writer, "/a", b"1", None)
        await until_equal(writer, reader)
        world.servers["zk-2"].cut_off()
        newer = await compare_and_set(writer, "/a", b"2", version)
        assert await reader.get("/a") == (b"1", version), "it reads what its server has"
        world.simulation.loop.call_later(1, world.servers["zk-2"].rejoin)
        with pytest.raises(VersionConflict) as conflict:
            await compare_and_set(reader, "/a", b"3", version)
        assert conflict.value.version == newer
        assert await reader.get("/a") == (b"2", newer)
        await compare_and_set(reader, "/a", b"3", newer)
        assert await until_equal(writer, reader) == {"/a": b"3"}

    with_zookeeper(use)


def test_a_check_alone_is_made_on_the_newest_state() -> None:
    async def use(world: World) -> None:
        writer, reader = await world.store("writer", servers=("zk-1",)), await world.store("reader", servers=("zk-2",))
        assert await reader.commit([Check("/a", None)]) == [None]
        world.servers["zk-2"].cut_off()
        await compare_and_set(writer, "/a", b"1", None)
        world.simulation.loop.call_later(1, world.servers["zk-2"].rejoin)
        with pytest.raises(VersionConflict):
            await reader.commit([Check("/a", None)])

    with_zookeeper(use)


def test_a_check_conflicts_with_the_end_of_a_session_that_no_commit_tells_of() -> None:
    async def use(world: World) -> None:
        registered = await world.store("registered")
        writer = await world.store("writer", servers=("zk-2",))
        (version,) = await registered.commit([Put("/brokers/1", b"x", None, ephemeral=True)])
        await until_equal(registered, writer)
        world.servers["zk-2"].cut_off()  # The writer is not told.
        world.ensemble.expire(world.sessions["registered"].session_id)
        world.simulation.loop.call_later(1, world.servers["zk-2"].rejoin)
        with pytest.raises(VersionConflict):
            await writer.commit([Put("/topics/a", b"1", None), Check("/brokers/1", version)])
        assert await everything(writer) == {}

    with_zookeeper(use)


def test_a_new_process_owns_the_ephemeral_value_that_it_writes_over() -> None:
    async def use(world: World) -> None:
        old, watcher = await world.store("old"), await world.store("watcher")
        (first,) = await old.commit([Put("/brokers/1", b"old", None, ephemeral=True)])
        world.sessions["old"].abandon()
        new = await world.store("new")
        await new.commit([Put("/brokers/1", b"new", first, ephemeral=True)])
        await asyncio.sleep(60)  # The old session has expired by now.
        assert await until_equal(new, watcher) == {"/brokers/1": b"new"}

    with_zookeeper(use)


def test_the_ephemeral_values_of_a_dead_process_are_gone_when_its_session_expires() -> None:
    async def use(world: World) -> None:
        dying, watcher = await world.store("dying"), await world.store("watcher")
        seen: list[str] = []
        watcher.watch("/brokers", seen.append)
        await dying.commit([Put("/brokers/1", b"x", None, ephemeral=True)])
        await until_equal(dying, watcher)
        world.sessions["dying"].abandon()
        await asyncio.sleep(60)
        assert await everything(watcher) == {}
        assert seen == ["/brokers/1", "/brokers/1"]
        assert await watcher.commit([Put("/brokers/1", b"y", None, ephemeral=True)]) != [None]

    with_zookeeper(use)


def test_a_session_that_expires_behind_a_cut_is_followed_by_a_new_one() -> None:
    async def use(world: World) -> None:
        store, other = await world.store("broker"), await world.store("other")
        states: list[SessionState] = []
        store.watch_session(states.append)
        await store.commit([Put("/brokers/1", b"x", None, ephemeral=True)])
        world.simulation.network.partition("broker", *SERVERS)
        await asyncio.sleep(30)
        assert await everything(other) == {}
        assert states == [SessionState.SUSPENDED]
        assert await everything(store) == {"/brokers/1": b"x"}, "it serves on with what it knew"
        world.simulation.network.heal()
        while SessionState.LOST not in states or states[-1] is not SessionState.CONNECTED:
            await asyncio.sleep(0.1)
        await store.commit([Put("/brokers/1", b"again", None, ephemeral=True)])
        assert await until_equal(store, other) == {"/brokers/1": b"again"}

    with_zookeeper(use)


def test_without_a_server_a_commit_ends_in_time_and_says_that_its_outcome_is_unknown() -> None:
    async def use(world: World) -> None:
        store = await world.store("broker", commit_timeout_s=5.0)
        world.simulation.network.partition("broker", *SERVERS)
        with pytest.raises(StorageError, match="not known"):
            await compare_and_set(store, "/a", b"1", None)
        world.simulation.network.heal()
        await compare_and_set(store, "/b", b"1", None)
        assert (await everything(store))["/b"] == b"1"

    with_zookeeper(use)


def test_long_paths_leave_room_for_the_commits_after_them() -> None:
    """Names of clients are percent-encoded: 32,767 bytes become nearly 100,000."""

    async def use(world: World) -> None:
        one, other = await world.store("one"), await world.store("other")
        for number in range(20):
            await compare_and_set(one, f"/acls/{'%E2%82%AC' * 10_000}{number}", b"x", None)
        assert one.commit_bytes_max is not None
        await one.commit([Put("/topics/large", b"x" * one.commit_bytes_max, None)])
        assert len(await until_equal(one, other)) == 21

    with_zookeeper(use)


def test_a_change_larger_than_zookeeper_takes_is_refused_and_nothing_is_changed() -> None:
    async def use(world: World) -> None:
        store = await world.store("one")
        with pytest.raises(StorageError, match=r"a change of \d+ bytes.*Nothing was changed"):
            await store.commit([Put(f"/many/{number}", b"x" * 10_000, None) for number in range(100)])
        assert await store.children("/many") == []
        await store.commit([Put(f"/many/{number}", b"x" * 10_000, None) for number in range(90)])
        assert len(await store.children("/many")) == 90

    with_zookeeper(use)


def test_a_commit_that_is_carried_out_after_its_connection_was_lost_counts() -> None:
    """It lies in a server that is cut off, and is carried out in the moment before the store would send it again."""

    async def use(world: World) -> None:
        store = await world.store("broker", servers=("zk-1", "zk-2"))
        session = world.sessions["broker"]
        write = session.write

        async def write_later(writes: Sequence[Write]) -> int:
            world.servers["zk-1"].rejoin()
            await asyncio.sleep(1)
            session.write = write  # type: ignore[method-assign]
            return await write(writes)

        world.servers["zk-1"].cut_off()
        committing = asyncio.ensure_future(compare_and_set(store, "/a", b"1", None))
        await asyncio.sleep(0.1)
        session.write = write_later  # type: ignore[method-assign]
        world.simulation.network.reset("broker", "zk-1")

        version = await committing
        assert await store.get("/a") == (b"1", version)

    with_zookeeper(use)


def test_after_a_refresh_the_outcome_of_a_commit_is_final_also_if_it_was_not_found_out_in_time() -> None:
    """It lies in a server that is cut off, and is carried out after the refresh, unless that has prevented it."""

    async def use(world: World) -> None:
        store = await world.store("broker", servers=("zk-1", "zk-2"), commit_timeout_s=3.0)
        world.servers["zk-1"].cut_off()
        world.simulation.network.partition("broker", "zk-2")
        with pytest.raises(StorageError, match="not known"):
            await compare_and_set(store, "/a", b"1", None)
        world.simulation.network.heal()
        await store.refresh()
        after_refresh = await everything(store)
        world.servers["zk-1"].rejoin()
        await asyncio.sleep(1)
        await store.refresh()
        assert await everything(store) == after_refresh

    with_zookeeper(use)


def test_after_a_refresh_the_outcome_of_a_commit_is_final_also_if_a_later_commit_was_refused() -> None:
    """The refused commit, which expected a broker that is gone, has not used up the number of the one before it."""

    async def use(world: World) -> None:
        registered = await world.store("registered", servers=("zk-3",))
        store = await world.store("broker", servers=("zk-1", "zk-2"), commit_timeout_s=3.0)
        (version,) = await registered.commit([Put("/brokers/1", b"x", None, ephemeral=True)])
        await until_equal(registered, store)
        world.servers["zk-1"].cut_off()
        world.simulation.network.partition("broker", "zk-2")
        with pytest.raises(StorageError, match="not known"):
            await compare_and_set(store, "/a", b"1", None)
        world.simulation.network.heal()
        await asyncio.sleep(1)
        world.servers["zk-2"].cut_off()  # The store is not told that the broker is gone.
        world.ensemble.expire(world.sessions["registered"].session_id)
        world.simulation.loop.call_later(1, world.servers["zk-2"].rejoin)
        with pytest.raises(VersionConflict):
            await store.commit([Put("/topics/b", b"1", None), Check("/brokers/1", version)])
        await store.refresh()
        after_refresh = await everything(store)
        world.servers["zk-1"].rejoin()
        await asyncio.sleep(1)
        await store.refresh()
        assert await everything(store) == after_refresh

    with_zookeeper(use)


def test_what_an_earlier_process_has_sent_is_not_carried_out_any_more() -> None:
    """It would be taken for an answer about a commit of the process that is there now."""

    async def use(world: World) -> None:
        dead = await world.store("broker", servers=("zk-1",))
        world.servers["zk-1"].cut_off()
        asyncio.ensure_future(compare_and_set(dead, "/a", b"1", None)).add_done_callback(lambda done: done.exception())
        await asyncio.sleep(0.1)
        dead.abandon()
        session = await world.session("broker", servers=("zk-2",))
        store = await ZooKeeperStore.open(session, author="broker", incarnation="b", ephemeral_folders=FOLDERS)
        world.servers["zk-1"].rejoin()
        await asyncio.sleep(1)
        await store.refresh()
        assert await everything(store) == {}

    with_zookeeper(use)


def test_a_store_is_opened_with_the_newest_state_although_its_server_is_behind() -> None:
    async def use(world: World) -> None:
        await (await world.store("reader", servers=("zk-2",))).close()
        writer = await world.store("writer", servers=("zk-1",))
        await compare_and_set(writer, "/a", b"1", None)
        reader = await world.store("reader", servers=("zk-2",))
        assert await everything(reader) == {"/a": b"1"}

    with_zookeeper(use, lag_s=5.0)


async def three_brokers_count(world: World) -> None:
    """With connections that break anywhere: no number is written twice, none is missing, all stores end equal."""
    names = ("broker-1", "broker-2", "broker-3")
    stores = [await world.store(name, commit_timeout_s=600.0) for name in names]
    chance = world.simulation.random("faults")
    network = world.simulation.network

    async def disturb() -> None:
        while True:
            await asyncio.sleep(chance.random() * 0.3)
            name, server = chance.choice(names), chance.choice(SERVERS)
            match chance.randrange(4):
                case 0:
                    network.reset(name, server)
                case 1:
                    network.partition(name, server)
                    await asyncio.sleep(chance.random() * 12)
                    network.heal()
                case 2:
                    world.servers[server].cut_off()
                    await asyncio.sleep(chance.random() * 12)
                    world.servers[server].rejoin()
                case _:
                    network.set_link(name, server, Link(latency=uniform_ms(0.0, 0.1 + chance.random() * 200)))

    disturbing = asyncio.ensure_future(disturb())
    counted = await asyncio.gather(*(count_up(store, 15) for store in stores))
    disturbing.cancel()
    network.heal()
    for server in world.servers.values():
        server.rejoin()
    numbers = sorted(number for written in counted for number in written)
    assert numbers == list(range(1, 46))
    assert (await until_equal(*stores))["/counter"] == b"45"


@pytest.mark.parametrize("seed", seeds(30))
def test_counting_over_a_bad_network_counts_every_success_once(seed: int) -> None:
    with_zookeeper(three_brokers_count, seed=seed)


# Planted bugs: each is shown by the scenario that is about it.


async def never_sealed(store: ZooKeeperStore, number: int, mark: str) -> bool:
    await store._refresh()
    known = await store._session.get(store._author_path)
    return known is not None and known.data.decode() == mark


async def taken_for_written(store: ZooKeeperStore, number: int, mark: str) -> bool:
    await store._refresh()
    return True


def test_a_lost_answer_that_is_not_sealed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ZooKeeperStore, "_resolved", never_sealed)
    with pytest.raises(VersionConflict):
        test_a_commit_that_is_carried_out_after_its_connection_was_lost_counts()


def test_a_lost_answer_that_is_taken_for_a_yes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ZooKeeperStore, "_resolved", taken_for_written)

    def count_with_many_seeds() -> None:
        for seed in range(100):
            with_zookeeper(three_brokers_count, seed=seed)

    with pytest.raises(AssertionError):
        count_with_many_seeds()


def test_a_conflict_that_is_reported_from_an_old_tree_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def without_sync(store: ZooKeeperStore) -> None:
        await store._retry_on_connection_loss(store._catch_up)

    monkeypatch.setattr(ZooKeeperStore, "_refresh", without_sync)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_check_alone_is_made_on_the_newest_state()


def test_an_ephemeral_value_that_is_only_set_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = ZnodeTree.writes

    def that_set(tree: ZnodeTree, operations: list[Put]) -> list[Write]:
        found = writes(tree, operations)
        removed = {write.path for write in found if isinstance(write, Remove)}
        kept = [write for write in found if not isinstance(write, Remove)]
        return [
            SetData(write.path, write.data) if write.path in removed and isinstance(write, Create) else write
            for write in kept
        ]

    monkeypatch.setattr(ZnodeTree, "writes", that_set)
    with pytest.raises(AssertionError):
        test_a_new_process_owns_the_ephemeral_value_that_it_writes_over()


def test_a_version_that_comes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    note = ZnodeTree.note
    monkeypatch.setattr(
        ZnodeTree, "note", lambda tree, path, node: note(tree, path, node and node._replace(mzxid=node.version))
    )

    async def use(world: World) -> None:
        writer, reader = await world.store("writer"), await world.store("reader")
        for value in (b"1", b"2"):
            version = await compare_and_set(writer, "/a", value, None)
            await until_equal(writer, reader)
            seen = await reader.get("/a")
            assert seen == (value, version), "both know it by the same version"
            await writer.commit([Delete("/a", version)])

    with pytest.raises(AssertionError, match="the same version"):
        with_zookeeper(use)
