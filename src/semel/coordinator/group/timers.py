"""Many deadlines of one shard, in the order in which they pass.

A heartbeat moves a deadline and must cost next to nothing, so a deadline that moves later is only noted: the old entry
stays in the heap, and when it surfaces too early it is put back at its true place. The law: nothing is due before its
deadline, and ``next_due_ms`` is never later than the earliest deadline.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    def __init__(self) -> None:
        self._deadlines: dict[Key, float] = {}
        self._queue: list[tuple[float, int, Key]] = []
        self._earliest_queued: dict[Key, float] = {}
        self._number = count()  # Keys need no order: of two that are due at once, the one set first goes first.

    def set(self, key: Key, due_ms: float) -> None:
        """Set the deadline, or move it."""
        self._deadlines[key] = due_ms
        queued = self._earliest_queued.get(key)
        if queued is None or due_ms < queued:
            self._enqueue(key, due_ms)

    def cancel(self, key: Key) -> None:
        """Forget the deadline; one that was never set is fine."""
        self._deadlines.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._deadlines

    def next_due_ms(self) -> float | None:
        """When to look again. Possibly early: then ``take_due`` finds nothing."""
        return self._queue[0][0] if self._queue else None

    def take_due(self, now_ms: float) -> Iterator[Key]:
        """Take out, one by one, the keys whose deadline has passed."""
        while self._queue and self._queue[0][0] <= now_ms:
            queued_ms, _, key = heappop(self._queue)
            if self._earliest_queued.get(key) != queued_ms:
                continue  # An earlier entry has taken its place.
            del self._earliest_queued[key]
            due_ms = self._deadlines.get(key)
            if due_ms is None:
                continue
            if due_ms > now_ms:
                self._enqueue(key, due_ms)
                continue
            del self._deadlines[key]
            yield key

    def _enqueue(self, key: Key, due_ms: float) -> None:
        self._earliest_queued[key] = due_ms
        heappush(self._queue, (due_ms, next(self._number), key))
