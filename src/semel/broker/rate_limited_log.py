"""Log lines that strangers can provoke, limited.

Whoever can open a connection can send garbage. Each piece of garbage is worth one line, a flood of it is not worth a
full disk: beyond a few lines in a second the rest are counted, and the count is logged with the next line that passes.
"""

from __future__ import annotations

import logging
from typing import Final

from semel.clock import Clock

LINES_PER_SECOND_MAX: Final = 5


class RateLimitedLog:
    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._second = -1
        self._lines = 0
        self.suppressed = 0

    def warning(self, message: str, *values: object) -> None:
        second = int(self._clock.monotonic_ms() // 1000)
        if second != self._second:
            self._second, self._lines = second, 0
            if self.suppressed:
                self._logger.warning("%d more lines like these were left out", self.suppressed)
                self.suppressed = 0
        if self._lines >= LINES_PER_SECOND_MAX:
            self.suppressed += 1
            return
        self._lines += 1
        self._logger.warning(message, *values)
