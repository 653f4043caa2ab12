"""Log lines about writes that were refused, with the free space: the first at once, then one line a minute with their
number.

A full disk refuses every write of every client. An operator needs one line about it, not ten thousand a second.
"""

from __future__ import annotations

import logging
from typing import Final

from semel.clock import Clock
from semel.log.disk import Disk

logger = logging.getLogger(__name__)

LINE_INTERVAL_MS: Final = 60_000


class WriteRefusals:
    """The count of the refused writes of one data directory, and the limit of their log lines."""

    def __init__(self, path: str, disk: Disk, clock: Clock) -> None:
        self._path = path
        self._disk = disk
        self._clock = clock
        self._silent_until_ms = 0.0
        self._unsaid = 0
        self.count = 0

    def refused(self, what: object, error: OSError) -> None:
        """Log a refused write, or only count it. ``what``: the partition or the file that could not be written."""
        self.count += 1
        now_ms = self._clock.monotonic_ms()
        if self.count > 1 and now_ms < self._silent_until_ms:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more since the last line like this)" if self._unsaid else ""
        free = self._free()
        logger.error("%s: a write to %s was refused: %s; %s%s", self._path, what, error, free, more)
        self._silent_until_ms = now_ms + LINE_INTERVAL_MS
        self._unsaid = 0

    def _free(self) -> str:
        try:
            return f"{self._disk.free_bytes(self._path)} bytes are free"
        except OSError as error:
            return f"how much is free is not known ({error})"
