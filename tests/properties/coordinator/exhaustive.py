"""Visit everything that can happen."""

from __future__ import annotations

import gc
from collections import deque
from dataclasses import dataclass
from itertools import chain

from tests.properties.coordinator.small_cluster import Cluster, What
from tests.properties.coordinator.small_world import World


@dataclass(frozen=True)
class Searched:
    worlds: int
    broken: str | None = None
    """The law that does not hold, if there is one."""
    trace: tuple[str, ...] = ()
    """The shortest way to where it does not."""


def search(cluster: Cluster) -> Searched:
    """Visit every world that can be reached, nearest first, up to the first in which a law does not hold."""
    gc.disable()  # A million small tuples that all live to the end: looking for garbage among them doubles the time.
    try:
        return _search(cluster)
    finally:
        gc.enable()


def _search(cluster: Cluster) -> Searched:
    start = cluster.start()
    came_from: dict[World, tuple[World, What] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        try:
            moves = list(cluster.moves(world))
            if not moves:
                cluster.settle(world)
            for what, after in chain(moves, cluster.faults(world)):
                if after not in came_from:
                    came_from[after] = (world, what)
                    waiting.append(after)
        except AssertionError as broken:  # A law, or the word of the shard itself.
            return Searched(len(came_from), str(broken), _trace(came_from, world))
    return Searched(len(came_from))


def _trace(came_from: dict[World, tuple[World, What] | None], world: World) -> tuple[str, ...]:
    steps = []
    while (step := came_from[world]) is not None:
        world, what = step
        steps.append(" ".join(map(str, what)))
    return tuple(reversed(steps))
