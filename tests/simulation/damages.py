"""One damage per seed: three of four to a directory of logs, which is quick, and one to that of a whole broker."""

from __future__ import annotations

from tests.simulation.damaged_broker import withstand_as_broker
from tests.simulation.damaged_directory import withstand_as_directory


def withstand(seed: int) -> dict[str, int]:
    """Raises ``AssertionError`` where the law of one of the two is broken. Returns what became of the partitions."""
    return withstand_as_broker(seed) if seed % 4 == 3 else withstand_as_directory(seed)
