"""The memory of large requests that are still arriving, over all connections (``queued.max.request.bytes``).

Only bytes that have arrived count, never the announced size. When the limit is reached, a connection that needs more
waits in a queue and is not read meanwhile. The law: one connection can always continue. If all connections that hold
memory also wait for more, none of them would ever release any; then the first in the queue gets all that it needs,
beyond the limit, and never two at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Holder: TypeAlias = object


class RequestMemory:
    """The memory of large requests of one server. Its holders are the receive buffers of connections."""

    def __init__(
        self,
        bytes_max: int,
        reclaim: Callable[[], None] = lambda: None,
        scarce: Callable[[], None] = lambda: None,
    ) -> None:
        self._bytes_max = bytes_max
        self._reclaim = reclaim  # Makes holders give back memory that they do not need now.
        self._scarce = scarce  # Called when the first holder begins to wait.
        self._holders: dict[Holder, int] = {}
        self._waiting: deque[tuple[Holder, int, Callable[[], None]]] = deque()
        self._favoured: Holder | None = None  # Gets all that it needs, because all holders wait.
        self.used_bytes = 0

    @property
    def is_scarce(self) -> bool:
        return bool(self._waiting)

    def take(self, holder: Holder, size_bytes: int) -> bool:
        """Give ``holder`` so many more bytes, if they are free. Returns whether they are; if not, call ``wait``."""
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
        """Give ``holder`` so many more bytes as soon as possible; ``given`` is called then, which may be at once."""
        self._waiting.append((holder, size_bytes, given))
        self._serve()
        if len(self._waiting) == 1:
            self._scarce()

    def give_back(self, holder: Holder) -> None:
        """Release all bytes of ``holder``, and remove it from the queue."""
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
