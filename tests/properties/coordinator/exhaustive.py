"""Visit everything that can happen."""

from __future__ import annotations

import gc
from collections import deque
from dataclasses import dataclass
from itertools import chain

from tests.properties.coordinator.cluster_state import ClusterState
from tests.properties.coordinator.small_cluster import Cluster, What


@dataclass(frozen=True)
class Searched:
    states: int
    broken: str | None = None
    """The law that does not hold, if there is one."""
    trace: tuple[str, ...] = ()
    """The shortest way to where it does not."""


def search(cluster: Cluster) -> Searched:
    """Visit every state that can be reached, nearest first, up to the first in which a law does not hold."""
    gc.disable()  # A million small tuples that all live to the end: looking for garbage among them doubles the time.
    try:
        return _search(cluster)
    finally:
        gc.enable()


def _search(cluster: Cluster) -> Searched:
    start = cluster.start()
    came_from: dict[ClusterState, tuple[ClusterState, What] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        try:
            moves = list(cluster.moves(state))
            if not moves:
                cluster.settle(state)
            for what, after in chain(moves, cluster.faults(state)):
                if after not in came_from:
                    came_from[after] = (state, what)
                    waiting.append(after)
        except AssertionError as broken:  # A law, or the word of the shard itself.
            return Searched(len(came_from), str(broken), _trace(came_from, state))
    return Searched(len(came_from))


def _trace(came_from: dict[ClusterState, tuple[ClusterState, What] | None], state: ClusterState) -> tuple[str, ...]:
    steps = []
    while (step := came_from[state]) is not None:
        state, what = step
        steps.append(" ".join(map(str, what)))
    return tuple(reversed(steps))
