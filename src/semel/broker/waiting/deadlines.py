"""The deadlines of many operations, on one timer of the event loop.

A Produce that waits for the disk and a Fetch that waits for records both have a deadline, and nearly all of them end
before it. So adding and removing a deadline must be cheap: deadlines are rounded up to buckets of a few milliseconds, a
bucket is a dict (in the order of insertion, so a simulation is repeatable), and the event loop has a single timer, for
the earliest bucket.

The law: no operation expires too early, and at most one bucket too late.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import Final

from semel.broker.waiting.delayed_operation import Expires

logger = logging.getLogger("semel.broker")

BUCKET_MS: Final = 4


class Deadlines:
    """The deadlines of all operations of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, dict[Expires, None]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_bucket = 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, operation: Expires, timeout_ms: int) -> int:
        """Set a deadline for the operation. Returns the ticket that ``discard`` needs."""
        due_ms = self._loop.time() * 1000 + max(timeout_ms, 0)
        ticket = int(due_ms // BUCKET_MS) + 1
        bucket = self._buckets.get(ticket)
        if bucket is None:
            self._buckets[ticket] = {operation: None}
            heapq.heappush(self._order, ticket)
            if self._timer is None or ticket < self._timer_bucket:
                self._arm()
        else:
            bucket[operation] = None
        return ticket

    def discard(self, operation: Expires, ticket: int) -> None:
        """Remove a deadline; does nothing if it has passed or was never set."""
        bucket = self._buckets.get(ticket)
        if bucket is not None:
            bucket.pop(operation, None)

    def close(self) -> None:
        """Remove all deadlines without calling their operations."""
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
        # A timer may fire slightly too early (the loop rounds to its clock's resolution): the bucket that it was set
        # for counts as due.
        due = max(self._timer_bucket, int(self._loop.time() * 1000 // BUCKET_MS))
        while self._order and self._order[0] <= due:
            # The bucket stays in the dict meanwhile: an operation that expires may discard the deadline of another one.
            bucket = self._buckets[self._order[0]]
            while bucket:
                operation = next(iter(bucket))
                del bucket[operation]
                try:
                    operation.expired()
                except Exception:
                    logger.exception("%r failed when it expired", operation)
            del self._buckets[heapq.heappop(self._order)]
        # Emptied buckets need no timer of their own.
        while self._order and not self._buckets[self._order[0]]:
            del self._buckets[heapq.heappop(self._order)]
        if self._order and self._timer is None:
            self._arm()
