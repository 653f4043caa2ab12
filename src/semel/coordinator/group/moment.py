"""When something is decided, on both clocks.

Records carry wall-clock time, as Kafka's do. Sessions and rebalances are measured on the monotonic clock: setting the
wall clock must not end anybody's session.
"""

from __future__ import annotations

from typing import NamedTuple


class Moment(NamedTuple):
    wall_ms: int
    monotonic_ms: float
