"""How much memory requests that are still arriving may take, over all connections (``queued.max.request.bytes``).

Only what has arrived counts, never what was promised. When there is no more, a connection that needs more waits in
line and is not read meanwhile. The law: one connection can always go on. If all that hold memory also wait for more,
none would ever give any back, so then the first in line gets all that it needs although there is none left; never two
at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Holder: TypeAlias = object


class RequestMemory:
    def __init__(
        self,
        bytes_max: int,
        reclaim: Callable[[], None] = lambda: None,
        scarce: Callable[[], None] = lambda: None,
    ) -> None:
        self._bytes_max = bytes_max
        self._reclaim = reclaim  # Makes those give back who hold memory and need none.
        self._scarce = scarce  # Told when the first begins to wait.
        self._holders: dict[Holder, int] = {}
        self._waiting: deque[tuple[Holder, int, Callable[[], None]]] = deque()
        self._favoured: Holder | None = None  # Who gets what it needs, because all are stuck.
        self.used_bytes = 0

    @property
    def is_scarce(self) -> bool:
        return bool(self._waiting)

    def take(self, holder: Holder, size_bytes: int) -> bool:
        """Whether ``holder`` may have so much more. If not, it asks again with ``wait``."""
        if holder is self._favoured:
            self._give(holder, size_bytes)
            return True
        if self._waiting or self.used_bytes + size_bytes > self._bytes_max:
            self._reclaim()
            if self._waiting or self.used_bytes + size_bytes > self._bytes_max:
                return False
        self._give(holder, size_bytes)
        return True

    def wait(self, holder: Holder, size_bytes: int, given: Callable[[], None]) -> None:
        """Have so much more as soon as it can be; ``given`` is called then, which may be at once."""
        self._waiting.append((holder, size_bytes, given))
        self._serve()
        if len(self._waiting) == 1:
            self._scarce()

    def give_back(self, holder: Holder) -> None:
        """All that ``holder`` has, and its place in the line."""
        self.used_bytes -= self._holders.pop(holder, 0)
        if holder is self._favoured:
            self._favoured = None
        if any(waiting is holder for waiting, _, _ in self._waiting):
            self._waiting = deque(entry for entry in self._waiting if entry[0] is not holder)
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            holder, size_bytes, given = self._waiting[0]
            if self.used_bytes + size_bytes > self._bytes_max:
                if not self._is_stuck():
                    return
                self._favoured = holder
            self._waiting.popleft()
            self._give(holder, size_bytes)
            given()

    def _is_stuck(self) -> bool:
        waiting = {id(holder) for holder, _, _ in self._waiting}
        return all(id(holder) in waiting for holder in self._holders)

    def _give(self, holder: Holder, size_bytes: int) -> None:
        self._holders[holder] = self._holders.get(holder, 0) + size_bytes
        self.used_bytes += size_bytes
