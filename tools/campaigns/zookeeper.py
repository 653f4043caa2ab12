"""Three stores count on an ensemble of three real ZooKeeper servers, which are killed, paused and started again."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from semel.metadata.store import VersionConflict
from semel.metadata.zookeeper.kazoo_session import KazooSession
from semel.metadata.zookeeper.store import ZooKeeperStore
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
    counted = await asyncio.gather(*(_count_up(store) for store in stores))
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    for store in stores:
        await store.close()
    numbers = sorted(number for written in counted for number in written)
    return {"passed": numbers == list(range(1, BROKERS * COUNTED + 1)), "counted": len(numbers), **faults}


async def _count_up(store: ZooKeeperStore) -> list[int]:
    written: list[int] = []
    while len(written) < COUNTED:
        known = await store.get("/counter")
        number = 0 if known is None else int(known.value)
        try:
            await store.compare_and_set("/counter", b"%d" % (number + 1), None if known is None else known.version)
        except VersionConflict:
            continue
        written.append(number + 1)
    return written


async def _disturb(servers: list[ZooKeeperServer], chance: Random, faults: dict[str, int]) -> None:
    """One server at a time: the two others go on."""
    while True:
        await asyncio.sleep(chance.random())
        server = chance.choice(servers)
        if chance.random() < 0.3:
            faults["paused"] += 1
            server.pause()
            try:
                await asyncio.sleep(chance.random() * 6)
            finally:
                server.resume()
        else:
            is_leader = "Mode: leader" in await asyncio.to_thread(server.ask, "srvr")
            faults["leaders_killed" if is_leader else "followers_killed"] += 1
            server.kill()
            await asyncio.to_thread(server.start)
