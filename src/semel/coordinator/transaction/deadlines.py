"""When open transactions time out, in order.

An index over the state, kept by replay. Setting and discarding cost the logarithm of how many transactions are open,
asking costs what is due; neither grows with the number of transactional ids that are known.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

_STALE_MAX: Final = 64


class Deadlines:
    def __init__(self) -> None:
        self._deadlines: dict[str, int] = {}
        # Besides every deadline that holds, some that no longer do: taking one out of the middle would cost a search.
        self._heap: list[tuple[int, str]] = []

    def set(self, transactional_id: str, deadline_ms: int) -> None:
        if self._deadlines.get(transactional_id) == deadline_ms:
            return
        self._deadlines[transactional_id] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, transactional_id))
        # As many as hold, and a few: so each of them is copied once per discard, and forgotten soon.
        if len(self._heap) > 2 * len(self._deadlines) + _STALE_MAX:
            self._heap = [(deadline_ms, key) for key, deadline_ms in self._deadlines.items()]
            heapq.heapify(self._heap)

    def discard(self, transactional_id: str) -> None:
        self._deadlines.pop(transactional_id, None)

    def before(self, now_ms: int) -> list[str]:
        """The ids whose deadline has passed, the oldest first. Changes nothing."""
        due: set[tuple[int, str]] = set()
        heap, positions = self._heap, [0]
        while positions:
            position = positions.pop()
            if position < len(heap) and heap[position][0] < now_ms:
                due.add(heap[position])
                positions += (2 * position + 1, 2 * position + 2)  # A heap is a tree: nothing below is earlier.
        return [key for deadline_ms, key in sorted(due) if self._deadlines.get(key) == deadline_ms]

    def __iter__(self) -> Iterator[str]:
        return iter(self._deadlines)

    def __len__(self) -> int:
        return len(self._deadlines)
