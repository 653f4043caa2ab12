"""Whether the application still polls.

Heartbeats show that the process lives; only ``poll`` shows that the application processes what it returns. A member
whose application does not poll for max.poll.interval.ms holds partitions that are not read, and has to give them back.
"""

from __future__ import annotations

from semel.clock import NEVER


class PollLiveness:
    """The time of the application's next poll at the latest. Before the first poll there is no such deadline."""

    def __init__(self, max_poll_interval_ms: int) -> None:
        self._interval_ms = max_poll_interval_ms
        self._deadline_ms: float | None = None
        self.is_in_poll = False
        """Whether the application is inside ``poll`` now: then it is not processing any returned record."""

    def poll_began(self) -> None:
        self.is_in_poll = True
        self._deadline_ms = NEVER

    def poll_ended(self, now_ms: float) -> None:
        """The application has left ``poll``, with records to process or a callback to run."""
        self.is_in_poll = False
        self._deadline_ms = now_ms + self._interval_ms

    def polled(self, now_ms: float) -> None:
        """The application has polled without waiting."""
        if not self.is_in_poll:
            self._deadline_ms = now_ms + self._interval_ms

    def poll_failed(self) -> None:
        """The application got an error instead of records. It counts as absent until it polls again."""
        self.is_in_poll = False
        self._deadline_ms = None

    def is_alive(self, now_ms: float) -> bool:
        return self._deadline_ms is not None and now_ms < self._deadline_ms

    def is_overdue(self, now_ms: float) -> bool:
        return self._deadline_ms is not None and now_ms >= self._deadline_ms

    def next_deadline_ms(self, now_ms: float) -> float:
        return self._deadline_ms if self._deadline_ms is not None and self._deadline_ms > now_ms else NEVER
