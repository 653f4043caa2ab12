"""Visit everything that can happen to a small cluster, nearest first."""

from __future__ import annotations

import gc
from collections import deque
from dataclasses import dataclass
from itertools import chain

from tests.properties.replication.small_cluster import SmallCluster, What, World


@dataclass(frozen=True)
class Searched:
    states: int
    broken: str | None = None
    """The law that does not hold, if there is one."""
    trace: tuple[str, ...] = ()
    """The shortest way to where it does not."""
    is_complete: bool = True


def search(cluster: SmallCluster, *, states_max: int | None = None) -> Searched:
    """Every state that can be reached, up to the first in which a law does not hold."""
    gc.disable()  # Small tuples that all live to the end: looking for garbage among them doubles the time.
    try:
        return _search(cluster, states_max)
    finally:
        gc.enable()


def _search(cluster: SmallCluster, states_max: int | None) -> Searched:
    start = cluster.start()
    came_from: dict[World, tuple[World, What] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        what: What = ()
        try:
            moves = list(cluster.moves(world))
            if not moves:
                cluster.check_quiet(world)
            for what, after in chain(moves, cluster.faults(world)):
                if after not in came_from:
                    cluster.check(after)
                    came_from[after] = (world, what)
                    waiting.append(after)
        except AssertionError as broken:  # A law, or the word of the replica set itself.
            return Searched(len(came_from), str(broken), (*_trace(came_from, world), f"after {what}"))
        if states_max is not None and len(came_from) > states_max:
            return Searched(len(came_from), is_complete=False)
    return Searched(len(came_from))


def _trace(came_from: dict[World, tuple[World, What] | None], world: World) -> tuple[str, ...]:
    steps = []
    while (step := came_from[world]) is not None:
        world, what = step
        steps.append(" ".join(map(str, what)))
    return tuple(reversed(steps))
