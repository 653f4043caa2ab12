"""One damage per seed: most to a directory of logs, which is quick, and some to that of a whole broker.

One of four strikes a broker that is alone, one of sixteen a broker with replicas beside two others.
"""

from __future__ import annotations

from tests.simulation.damaged_broker import withstand_as_broker
from tests.simulation.damaged_directory import withstand_as_directory
from tests.simulation.damaged_replica import withstand_as_replica


def withstand(seed: int) -> dict[str, int]:
    """Raises ``AssertionError`` where the law of one of the three is broken. Returns what became of the partitions."""
    if seed % 4 == 3:
        return withstand_as_broker(seed)
    if seed % 16 == 1:
        return withstand_as_replica(seed)
    return withstand_as_directory(seed)
