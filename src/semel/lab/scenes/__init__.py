"""The scenes of the lab, one file each, in the order in which they are best seen."""

from __future__ import annotations

from typing import Final

from semel.lab.scene import Scene
from semel.lab.scenes.abort import ABORT
from semel.lab.scenes.failing_batch import FAILING_BATCH
from semel.lab.scenes.fencing import FENCING
from semel.lab.scenes.isolation_levels import ISOLATION_LEVELS
from semel.lab.scenes.lost_answer import LOST_ANSWER
from semel.lab.scenes.lost_coordinator import LOST_COORDINATOR
from semel.lab.scenes.micro_batch import MICRO_BATCH
from semel.lab.scenes.open_transaction import OPEN_TRANSACTION
from semel.lab.scenes.rebalance import REBALANCE
from semel.lab.scenes.timeout import TIMEOUT
from semel.lab.scenes.window_of_five import WINDOW_OF_FIVE
from semel.lab.scenes.zombie_coordinator import ZOMBIE_COORDINATOR

SCENES: Final[tuple[Scene, ...]] = (
    LOST_ANSWER,
    WINDOW_OF_FIVE,
    FAILING_BATCH,
    FENCING,
    OPEN_TRANSACTION,
    ABORT,
    LOST_COORDINATOR,
    TIMEOUT,
    REBALANCE,
    ISOLATION_LEVELS,
    MICRO_BATCH,
    ZOMBIE_COORDINATOR,
)


def scene(number: int) -> Scene:
    """Raises ``KeyError`` if there is none with this number."""
    return {one.number: one for one in SCENES}[number]
