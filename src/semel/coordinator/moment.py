"""A moment: the time of a decision, on the wall clock and on the monotonic clock.

Records carry wall-clock time, as Kafka's do, and so do the deadlines of transactions, which follow from records.
Sessions and rebalances are measured on the monotonic clock: setting the wall clock must not end a member's session.
"""

from __future__ import annotations

from typing import NamedTuple

from semel.clock import Clock


class Moment(NamedTuple):
    wall_ms: int
    monotonic_ms: float

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        return cls(clock.now_ms(), clock.monotonic_ms())
