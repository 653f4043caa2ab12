"""Deadlines: many of one shard, in the order in which they pass. Of transactions, of members, of offsets.

An index over the state of a shard. A heartbeat moves a deadline and must cost next to nothing, so a deadline that moves
later, or is discarded, is only noted: its old entry stays in the heap, and is put right when it comes up. The law:
nothing is due before its deadline, and ``next_ms`` is never later than the earliest deadline.
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
    """A deadline for each of its keys, on whichever clock the caller uses."""

    __slots__ = ("_due_ms", "_heap", "_number", "_queued_ms")

    def __init__(self) -> None:
        self._due_ms: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        # Of each key, its entry in the heap that counts. Never later than its deadline.
        self._queued_ms: dict[Key, float] = {}
        self._number = count()  # Keys need no order: of two that are due at once, the one queued first comes first.

    def __contains__(self, key: object) -> bool:
        return key in self._due_ms

    def __iter__(self) -> Iterator[Key]:
        return iter(self._due_ms)

    def __len__(self) -> int:
        return len(self._due_ms)

    def set(self, key: Key, due_ms: float) -> None:
        """Set the deadline, or move it."""
        self._due_ms[key] = due_ms
        if due_ms < self._queued_ms.get(key, inf):
            self._enqueue(key, due_ms)
            self._forget_stale_entries()

    def set_earlier(self, key: Key, due_ms: float) -> None:
        """Set the deadline, unless one is set that is as early."""
        if due_ms < self._due_ms.get(key, inf):
            self.set(key, due_ms)

    def discard(self, key: Key) -> None:
        """Forget the deadline, if there is one."""
        if self._due_ms.pop(key, None) is not None:
            self._forget_stale_entries()

    def next_ms(self) -> float | None:
        """When to look again. Possibly early: then ``take_due`` finds nothing."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float) -> Iterator[Key]:
        """Take out, one by one, the keys whose deadline has passed, the earliest first."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heappop(self._heap)
            if self._queued_ms.get(key) != queued_ms:
                continue  # An earlier entry has taken its place.
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
        """Once there are as many as there are deadlines, and a few: so each deadline is copied once per discard."""
        if len(self._heap) > 2 * len(self._due_ms) + _STALE_MAX:
            self._heap = [(due_ms, next(self._number), key) for key, due_ms in self._due_ms.items()]
            heapify(self._heap)
            self._queued_ms = dict(self._due_ms)
