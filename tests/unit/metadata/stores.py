"""Stores for tests: real ones, on a disk in memory, driven by a loop in which time is a number."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from semel.metadata.embedded import EmbeddedStore
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.worker import VirtualWorker

T = TypeVar("T")

FOLDER = "/data"
PATH = "/data/metadata"
COPY = "/data/metadata.copy"


def new_disk(seed: int = 0) -> VirtualDisk:
    disk = VirtualDisk(Random(seed))
    disk.make_folder(FOLDER)
    disk.sync_directory("/")
    return disk


def with_store(
    use: Callable[[EmbeddedStore], Awaitable[T]],
    disk: VirtualDisk | None = None,
    *,
    seed: int = 0,
    rewrite_size_bytes_min: int = 64 * 1024,
) -> T:
    """Open the store, use it, and leave it as a process that is killed would."""
    medium = disk or new_disk(seed)

    async def scenario(simulation: Simulation) -> T:
        worker = VirtualWorker(simulation.loop, simulation.random("worker"))
        store = EmbeddedStore.open(medium, PATH, worker, rewrite_size_bytes_min=rewrite_size_bytes_min)
        return await use(store)

    return run(scenario, seed=seed)


async def everything(store: EmbeddedStore) -> dict[str, bytes]:
    """All values below the root, by path."""
    found: dict[str, bytes] = {}

    async def walk(path: str) -> None:
        for name in await store.children(path):
            below = f"{path}/{name}"
            if (known := await store.get(below)) is not None:
                found[below] = known.value
            await walk(below)

    await walk("")
    return found
