"""Cluster features (KIP-584): what this broker could do, and what the cluster has agreed to do.

Clients switch protocols by the second list: transactions V2 with ``transaction.version`` 2, the new consumer groups
with ``group.version`` 1. A feature enters ``SUPPORTED`` together with the code that keeps its promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Levels(NamedTuple):
    min_level: int
    max_level: int


TRANSACTION_VERSION: Final = "transaction.version"

GROUP_VERSION: Final = "group.version"

SUPPORTED: Final[Mapping[str, Levels]] = {GROUP_VERSION: Levels(0, 1), TRANSACTION_VERSION: Levels(0, 2)}


@dataclass(frozen=True, slots=True)
class Features:
    supported: Mapping[str, Levels] = field(default_factory=lambda: SUPPORTED)
    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0
    """Of the finalized list: it grows with every change. Clients ignore the list while it is negative."""

    @classmethod
    def finalized_at(cls, levels: Mapping[str, int]) -> Features:
        """Level 0 is said by saying nothing, as in Kafka."""
        return cls(finalized={name: level for name, level in levels.items() if level})
