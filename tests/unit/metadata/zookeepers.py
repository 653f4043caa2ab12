"""A model of ZooKeeper with three servers, and stores over it, as brokers of one cluster would open them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from semel.metadata.zookeeper.store import ZooKeeperStore
from semel.testing.simulation import Simulation, run
from semel.testing.zookeeper.ensemble import Ensemble
from semel.testing.zookeeper.server import ModelServer
from semel.testing.zookeeper.session import ModelSession

T = TypeVar("T")

FOLDERS = ("/brokers", "/")
SERVERS = ("zk-1", "zk-2", "zk-3")


@dataclass
class World:
    simulation: Simulation
    ensemble: Ensemble
    servers: dict[str, ModelServer]
    sessions: dict[str, ModelSession] = field(default_factory=dict)

    async def session(self, name: str, *, servers: tuple[str, ...] = SERVERS) -> ModelSession:
        session = self.sessions[name] = ModelSession(self.simulation.host(name).network, servers)
        await session.start()
        return session

    async def store(
        self, name: str = "broker", *, servers: tuple[str, ...] = SERVERS, commit_timeout_s: float = 30.0
    ) -> ZooKeeperStore:
        session = await self.session(name, servers=servers)
        return await ZooKeeperStore.open(
            session, author=name, incarnation="a", ephemeral_folders=FOLDERS, commit_timeout_s=commit_timeout_s
        )


def with_zookeeper(use: Callable[[World], Awaitable[T]], *, seed: int = 0, lag_s: float = 0.02) -> T:
    async def scenario(simulation: Simulation) -> T:
        ensemble = Ensemble(simulation.loop)
        servers = {
            name: ModelServer(name, simulation.network, ensemble, simulation.random(name), lag_s=lag_s)
            for name in SERVERS
        }
        for server in servers.values():
            await server.start()
        try:
            return await use(World(simulation, ensemble, servers))
        finally:
            ensemble.close()

    return run(scenario, seed=seed, duration_s_max=3600.0)
