"""Whether the application still asks for records.

Heartbeats show that the process lives; only ``poll`` shows that the application works on what it returns. A member
whose application stays away for max.poll.interval.ms holds partitions that are not read, and has to give them back.
"""

from __future__ import annotations

from semel.clock import NEVER


class PollLiveness:
    """An application that has never polled is not there yet, and so not late either."""

    def __init__(self, max_poll_interval_ms: int) -> None:
        self._interval_ms = max_poll_interval_ms
        self._deadline_ms: float | None = None
        self.is_here = False
        """Whether it is inside ``poll`` now: then nothing that was handed out is still being worked on."""

    def came(self) -> None:
        self.is_here = True
        self._deadline_ms = NEVER

    def left(self, now_ms: float) -> None:
        """It has records to work on, or a callback that runs."""
        self.is_here = False
        self._deadline_ms = now_ms + self._interval_ms

    def visited(self, now_ms: float) -> None:
        """It came and went at once."""
        if not self.is_here:
            self._deadline_ms = now_ms + self._interval_ms

    def dismissed(self) -> None:
        """It was told why there is nothing for it. Whether it comes back, it has to show."""
        self.is_here = False
        self._deadline_ms = None

    def is_alive(self, now_ms: float) -> bool:
        return self._deadline_ms is not None and now_ms < self._deadline_ms

    def is_overdue(self, now_ms: float) -> bool:
        return self._deadline_ms is not None and now_ms >= self._deadline_ms

    def next_deadline_ms(self, now_ms: float) -> float:
        return self._deadline_ms if self._deadline_ms is not None and self._deadline_ms > now_ms else NEVER
