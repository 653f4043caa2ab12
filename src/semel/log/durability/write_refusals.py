"""Log lines about refused writes: the first at once, then one line a minute with their number.

A full disk refuses every write of every client. An operator needs one line about it, not ten thousand a second.
"""

from __future__ import annotations

import logging
from typing import Final

from semel.clock import Clock
from semel.types import TopicPartition

logger = logging.getLogger(__name__)

LINE_INTERVAL_MS: Final = 60_000


class WriteRefusals:
    """Those of one data directory."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._silent_until_ms = 0.0
        self._unsaid = 0
        self.count = 0

    def refused(self, topic_partition: TopicPartition, error: OSError) -> None:
        self.count += 1
        now_ms = self._clock.monotonic_ms()
        if self.count > 1 and now_ms < self._silent_until_ms:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more since the last line like this)" if self._unsaid else ""
        logger.error("%s: a write to %s was refused: %s%s", self._path, topic_partition, error, more)
        self._silent_until_ms = now_ms + LINE_INTERVAL_MS
        self._unsaid = 0
