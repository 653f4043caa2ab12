"""Cluster features (KIP-584): the levels that this broker supports, and the finalized levels of the cluster.

Clients choose protocols by the finalized levels: transactions V2 with ``transaction.version`` 2, the consumer group
protocol (KIP-848) with ``group.version`` 1. A feature is added to ``SUPPORTED`` together with its implementation.
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
class BrokerFeatures:
    supported: Mapping[str, Levels] = field(default_factory=lambda: SUPPORTED)
    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0
    """The epoch of the finalized levels, which grows with every change. Clients ignore them if it is negative."""

    @classmethod
    def finalized_at(cls, levels: Mapping[str, int]) -> BrokerFeatures:
        """Return the features with these finalized levels. A feature at level 0 is left out, as in Kafka."""
        return cls(finalized={name: level for name, level in levels.items() if level})
