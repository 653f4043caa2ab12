"""The deadlines of one shard, in the order in which they pass: of transactions, of group members or of offsets.

This is an index over the state of the shard. A heartbeat moves a deadline and must cost next to nothing, so moving a
deadline later, or discarding it, leaves its old entry in the heap; the entry is corrected when it reaches the top.
The law: nothing is due before its deadline, and ``next_ms`` is never later than the earliest deadline.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_STALE_MAX: Final = 64


class Deadlines(Generic[Key]):
    """A deadline for each key, in milliseconds of the clock that the caller uses."""

    __slots__ = ("_due_ms", "_heap", "_number", "_queued_ms")

    def __init__(self) -> None:
        self._due_ms: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        # The time of each key's valid entry in the heap: never later than the key's deadline.
        self._queued_ms: dict[Key, float] = {}
        # Keys need not be comparable: of two that are due at the same time, the one that was queued first comes first.
        self._number = count()

    def __contains__(self, key: object) -> bool:
        return key in self._due_ms

    def __iter__(self) -> Iterator[Key]:
        return iter(self._due_ms)

    def __len__(self) -> int:
        return len(self._due_ms)

    def set(self, key: Key, due_ms: float) -> None:
        """Set the deadline of ``key``, or move it."""
        self._due_ms[key] = due_ms
        if due_ms < self._queued_ms.get(key, inf):
            self._enqueue(key, due_ms)
            self._forget_stale_entries()

    def set_earlier(self, key: Key, due_ms: float) -> None:
        """Set the deadline of ``key``, unless it has one that is as early or earlier."""
        if due_ms < self._due_ms.get(key, inf):
            self.set(key, due_ms)

    def shift(self, by_ms: float) -> None:
        """Move all deadlines by this time, because the clock was set by as much."""
        self._due_ms = {key: due_ms + by_ms for key, due_ms in self._due_ms.items()}
        self._rebuild()

    def discard(self, key: Key) -> None:
        """Remove the deadline of ``key``, if it has one."""
        if self._due_ms.pop(key, None) is not None:
            self._forget_stale_entries()

    def next_ms(self) -> float | None:
        """When to call ``take_due`` next; ``None`` without deadlines. It may be too early: then nothing is due yet."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float) -> Iterator[Key]:
        """Remove and yield the keys whose deadline has passed, the earliest first."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heappop(self._heap)
            if self._queued_ms.get(key) != queued_ms:
                continue  # This entry is stale: an earlier one replaced it.
            del self._queued_ms[key]
            due_ms = self._due_ms.get(key)
            if due_ms is None:
                continue
            if due_ms > queued_ms:
                self._enqueue(key, due_ms)  # It was moved later.
                continue
            del self._due_ms[key]
            yield key

    def _enqueue(self, key: Key, due_ms: float) -> None:
        self._queued_ms[key] = due_ms
        heappush(self._heap, (due_ms, next(self._number), key))

    def _forget_stale_entries(self) -> None:
        """Rebuild the heap once it has more stale entries than deadlines, and ``_STALE_MAX`` more.

        So the cost of a rebuild, spread over the changes since the last one, is constant for each of them.
        """
        if len(self._heap) > 2 * len(self._due_ms) + _STALE_MAX:
            self._rebuild()

    def _rebuild(self) -> None:
        self._heap = [(due_ms, next(self._number), key) for key, due_ms in self._due_ms.items()]
        heapify(self._heap)
        self._queued_ms = dict(self._due_ms)
