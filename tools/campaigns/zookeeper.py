"""Three metadata stores increment a counter on three real ZooKeeper servers, which are killed, paused and restarted."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from semel.metadata.zookeeper.kazoo_session import KazooSession
from semel.metadata.zookeeper.store import ZooKeeperStore
from tools.counting import count_up
from tools.patience import PATIENCE_S
from tools.zookeeper import ZooKeeperServer, ensemble

COUNT = 20
BROKERS = 3
COUNTED = 100


def run(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="semel-zookeeper-") as folder, ensemble(Path(folder)) as servers:
        return asyncio.run(_count(servers, Random(seed)))


async def _count(servers: list[ZooKeeperServer], chance: Random) -> dict[str, Any]:
    sessions = [KazooSession(",".join(server.address for server in servers), timeout_s=4.0) for _ in range(BROKERS)]
    for session in sessions:
        await session.start(timeout_s=PATIENCE_S)
    stores = [
        await ZooKeeperStore.open(
            session,
            author=f"broker-{number}",
            incarnation="a",
            ephemeral_folders=("/brokers", "/"),
            commit_timeout_s=600,
        )
        for number, session in enumerate(sessions)
    ]
    faults: dict[str, int] = {"leaders_killed": 0, "followers_killed": 0, "paused": 0}
    disturbing = asyncio.ensure_future(_disturb(servers, chance, faults))
    numbers: list[int] = []
    # A fast machine may finish before the first fault, so the last round begins only after a leader was killed.
    is_last_round = False
    while not is_last_round:
        is_last_round = faults["leaders_killed"] > 0
        for written in await asyncio.gather(*(count_up(store, COUNTED) for store in stores)):
            numbers += written
        if disturbing.done():
            disturbing.result()  # Raises the error that ended the faults.
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    for store in stores:
        await store.close()
    return {"passed": sorted(numbers) == list(range(1, len(numbers) + 1)), "counted": len(numbers), **faults}


async def _disturb(servers: list[ZooKeeperServer], chance: Random, faults: dict[str, int]) -> None:
    """Kill or pause one server at a time, so that the two others continue. The first one is the leader."""
    while True:
        await asyncio.sleep(chance.random())
        is_first = not faults["leaders_killed"]
        server = await _leader(servers) if is_first else chance.choice(servers)
        if chance.random() < 0.3 and not is_first:
            faults["paused"] += 1
            server.pause()
            try:
                await asyncio.sleep(chance.random() * 6)
            finally:
                server.resume()
        else:
            is_leader = await _leads(server)
            faults["leaders_killed" if is_leader else "followers_killed"] += 1
            server.kill()
            await asyncio.to_thread(server.start)


async def _leader(servers: list[ZooKeeperServer]) -> ZooKeeperServer:
    while True:
        for server in servers:
            if await _leads(server):
                return server


async def _leads(server: ZooKeeperServer) -> bool:
    return "Mode: leader" in await asyncio.to_thread(server.ask, "srvr")
