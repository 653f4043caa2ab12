"""The states of a classic group.

                        a member joins
       EMPTY ------------------------------> PREPARING_REBALANCE <------------------+
         ^                                     |    ^                               |
         |  all have left                      |    | a member joins, leaves, dies  | a member joins again,
         +-------------------------------------+    | or did not ask in time        | leaves or dies; the
                                               |    |                               | leader joins again
                 all have joined, or the time  v    |                               |
                 for it is over              COMPLETING_REBALANCE ------------> STABLE
                                                          the leader's SyncGroup

Kafka's fifth state, Dead, is here the absence of a group.
"""

from __future__ import annotations

from enum import IntEnum


class ClassicState(IntEnum):
    EMPTY = 0
    """The group has no members. It may have offsets."""
    PREPARING_REBALANCE = 1
    """The members are asked to join again, by the responses to their heartbeats."""
    COMPLETING_REBALANCE = 2
    """The new generation has begun; the leader has not sent the assignment yet."""
    STABLE = 3

    @property
    def kafka_name(self) -> str:
        return _KAFKA_NAMES[self]


_KAFKA_NAMES = {
    ClassicState.EMPTY: "Empty",
    ClassicState.PREPARING_REBALANCE: "PreparingRebalance",
    ClassicState.COMPLETING_REBALANCE: "CompletingRebalance",
    ClassicState.STABLE: "Stable",
}
