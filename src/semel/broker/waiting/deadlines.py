"""Many deadlines, one timer.

A Produce that waits for the disk and a Fetch that waits for records both have a deadline, and nearly all of them end
before it. So adding and removing one must cost next to nothing: deadlines are rounded up to buckets of a few
milliseconds, a bucket is a dict (in order of arrival: same run, same order), and the event loop holds a single timer,
for the earliest bucket.

The law: nobody is told too early, and at most one bucket too late.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import Final, Protocol

logger = logging.getLogger("semel.broker")

BUCKET_MS: Final = 4


class Waiter(Protocol):
    def expired(self) -> None:
        """The deadline has passed. Called once, and never after ``discard``."""


class Deadlines:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, dict[Waiter, None]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_bucket = 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, waiter: Waiter, timeout_ms: int) -> int:
        """Start the clock for ``waiter``. Returns the ticket that ``discard`` needs."""
        due_ms = self._loop.time() * 1000 + max(timeout_ms, 0)
        ticket = int(due_ms // BUCKET_MS) + 1
        bucket = self._buckets.get(ticket)
        if bucket is None:
            self._buckets[ticket] = {waiter: None}
            heapq.heappush(self._order, ticket)
            if self._timer is None or ticket < self._timer_bucket:
                self._arm()
        else:
            bucket[waiter] = None
        return ticket

    def discard(self, waiter: Waiter, ticket: int) -> None:
        """Forget a waiter; one that has expired or was never added is fine."""
        bucket = self._buckets.get(ticket)
        if bucket is not None:
            bucket.pop(waiter, None)

    def close(self) -> None:
        """Forget all of them, telling nobody."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._order.clear()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_bucket = self._order[0]
        self._timer = self._loop.call_at(self._timer_bucket * BUCKET_MS / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        # A timer may run a hair before its time (the loop rounds to its clock's resolution): the bucket it was set for
        # is due by definition.
        due = max(self._timer_bucket, int(self._loop.time() * 1000 // BUCKET_MS))
        while self._order and self._order[0] <= due:
            # The bucket stays findable while it is told: one waiter's end may discard another's.
            bucket = self._buckets[self._order[0]]
            while bucket:
                waiter = next(iter(bucket))
                del bucket[waiter]
                try:
                    waiter.expired()
                except Exception:
                    logger.exception("a deadline could not be told to %r", waiter)
            del self._buckets[heapq.heappop(self._order)]
        # Emptied buckets need no timer of their own.
        while self._order and not self._buckets[self._order[0]]:
            del self._buckets[heapq.heappop(self._order)]
        if self._order and self._timer is None:
            self._arm()
