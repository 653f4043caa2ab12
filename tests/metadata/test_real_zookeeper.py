"""The store on a real ZooKeeper, behind a proxy that cuts connections and withholds answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from uuid import uuid4

import pytest

from semel.metadata.store import Put, VersionConflict, compare_and_set
from semel.metadata.zookeeper.kazoo_session import KazooSession
from semel.metadata.zookeeper.session import SessionState
from semel.metadata.zookeeper.store import ZooKeeperStore
from tests.metadata.cutting_proxy import CuttingProxy
from tests.unit.metadata.zookeepers import FOLDERS
from tools.campaigns import zookeeper as campaign
from tools.patience import PATIENCE_S
from tools.zookeeper import ZooKeeperServer, running

pytestmark = pytest.mark.needs("java")

# ZooKeeper takes no shorter one than two of its ticks.
SESSION_S = 1.0


class World:
    """Stores in one folder of the server, each behind a proxy of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._chroot = uuid4().hex
        self.sessions: list[KazooSession] = []
        self.proxies: dict[str, CuttingProxy] = {}

    async def store(self, author: str, incarnation: str = "a", *, session_s: float = SESSION_S) -> ZooKeeperStore:
        proxy = self.proxies[incarnation + author] = CuttingProxy(self._port)
        await proxy.start()
        session = KazooSession(f"{proxy.address}/{self._chroot}", timeout_s=session_s)
        self.sessions.append(session)
        await session.start(timeout_s=PATIENCE_S)
        return await ZooKeeperStore.open(
            session,
            author=author,
            incarnation=incarnation,
            ephemeral_folders=FOLDERS,
            commit_timeout_s=PATIENCE_S,
        )

    async def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        await asyncio.gather(*(session.close() for session in self.sessions))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("zookeeper"), tick_ms=200) as server:
        yield server


def in_a_world(server: ZooKeeperServer, use: Callable[[World], Awaitable[None]]) -> None:
    async def scenario() -> None:
        world = World(server.port)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await use(world)
        finally:
            await world.close()

    asyncio.run(scenario())


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.02)


def test_a_commit_whose_answer_was_lost_is_found_to_count(server: ZooKeeperServer) -> None:
    async def use(world: World) -> None:
        one, other = await world.store("one", session_s=30.0), await world.store("other", session_s=30.0)
        proxy = world.proxies["aone"]
        await one.refresh()  # Or its first attempt would be refused, for being behind what the other did.
        proxy.withholds_from = b"/value"
        committing = asyncio.ensure_future(compare_and_set(one, "/value", b"1", None))

        async def has_arrived() -> bool:
            return await other.get("/value") is not None

        await until(has_arrived)
        assert not committing.done()
        proxy.cut()
        proxy.heal()
        version = await committing
        known = await one.get("/value")
        assert known is not None
        assert (known.value, known.version) == (b"1", version)
        with pytest.raises(VersionConflict):
            await compare_and_set(one, "/value", b"2", None)

    in_a_world(server, use)


def test_a_commit_that_never_arrived_is_made_when_the_connection_is_back(server: ZooKeeperServer) -> None:
    async def use(world: World) -> None:
        one, other = await world.store("one", session_s=30.0), await world.store("other", session_s=30.0)
        proxy = world.proxies["aone"]
        proxy.cut()
        committing = asyncio.ensure_future(compare_and_set(one, "/value", b"1", None))
        await compare_and_set(other, "/before", b"x", None)
        assert await other.get("/value") is None
        proxy.heal()
        await committing
        assert [await one.children("/"), (await one.get("/before")) is not None] == [["before", "value"], True]

    in_a_world(server, use)


def test_a_store_that_follows_others_keeps_one_watch_for_each_path(server: ZooKeeperServer) -> None:
    """A watch on the brokers goes off when one comes or goes, and all that were set until then go off together."""

    async def use(world: World) -> None:
        following, writing = await world.store("following"), await world.store("writing")
        for number in range(20):
            await compare_and_set(writing, f"/topics/{number}", b"1", None)
            await following.refresh()
        client = world.sessions[0]._client
        watches = {**client._data_watchers, **client._child_watchers}
        assert {path: len(of_path) for path, of_path in watches.items() if len(of_path) > 1} == {}

    in_a_world(server, use)


def test_a_new_process_owns_the_ephemeral_value_that_it_writes_over(server: ZooKeeperServer) -> None:
    async def use(world: World) -> None:
        first = await world.store("broker", "first")
        await first.commit([Put("/brokers/1", b"first", None, ephemeral=True)])
        second = await world.store("broker", "second", session_s=30.0)
        known = await second.get("/brokers/1")
        assert known is not None
        await second.commit([Put("/brokers/1", b"second", known.version, ephemeral=True)])
        lost = asyncio.Event()
        first.watch_session(lambda state: lost.set() if state is SessionState.LOST else None)
        world.proxies["firstbroker"].cut()
        watching = await world.store("watching", session_s=30.0)
        await asyncio.sleep(4 * SESSION_S)  # ZooKeeper's own clock expires the first session meanwhile.
        world.proxies["firstbroker"].heal()
        await lost.wait()
        await watching.refresh()
        left = await watching.get("/brokers/1")
        assert left is not None
        assert left.value == b"second"

    in_a_world(server, use)


def test_a_session_that_expires_while_it_is_suspended_takes_its_values_away(server: ZooKeeperServer) -> None:
    async def use(world: World) -> None:
        cut_off, watching = await world.store("cut-off"), await world.store("watching", session_s=30.0)
        states: list[SessionState] = []
        cut_off.watch_session(states.append)
        gone = asyncio.Event()
        await cut_off.commit([Put("/brokers/1", b"here", None, ephemeral=True)])

        async def is_seen() -> bool:
            return await watching.get("/brokers/1") is not None

        await until(is_seen)
        watching.watch("/brokers", lambda path: gone.set())
        proxy = world.proxies["acut-off"]
        proxy.cut()
        await gone.wait()
        assert await watching.get("/brokers/1") is None
        kept = await cut_off.get("/brokers/1")
        assert kept is not None, "suspended: it answers from memory"
        proxy.heal()

        async def is_gone_here() -> bool:
            return await cut_off.get("/brokers/1") is None

        await until(is_gone_here)
        assert SessionState.LOST in states
        await cut_off.commit([Put("/brokers/1", b"again", None, ephemeral=True)])
        await watching.refresh()
        again = await watching.get("/brokers/1")
        assert again is not None
        assert again.value == b"again"
        assert again.version > kept.version

    in_a_world(server, use)


@pytest.mark.kafka
def test_stores_count_right_while_servers_of_an_ensemble_are_killed_and_paused() -> None:
    """The leader among them. One seed; the campaign has twenty."""
    result = campaign.run(0)
    assert result["passed"], result
    assert result["leaders_killed"] > 0
