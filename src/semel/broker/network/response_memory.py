"""The memory of answers that clients have not read yet, over all connections (``queued.max.response.bytes``).

An answer counts from the moment it is made until the operating system has taken it, so a client that asks and does not
read makes it grow. Two things keep it within its limit. Every answer to Fetch may have a part of what is left, never
all of it (``room_bytes``), so that many clients that do not read leave something for one that does. And when nothing is
left, requests with large answers wait in line until something is (``wait``); the server meanwhile closes the
connections that read nothing (``Server``). A Fetch whose answer is small does not wait.

The law: what is counted exceeds the limit by one answer at most, and by ``FULL_ROOM_BYTES`` for each connection. That
one answer may be large: where there is room, the first batch of a Fetch is always sent whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from semel.wire.apis import ApiKey

# An answer to Fetch has at most one of so many parts of what is left: forty clients that do not read, each with a batch
# of 1 MB, leave room for others within the default limit.
PARTS: Final = 16
# Below this an answer would cost more requests than it saves memory.
ROOM_BYTES_MIN: Final = 64 * 1024
# What an answer to Fetch may have when nothing is left. It is less than the least that it may have otherwise: that
# tells the reader that a first batch which is larger has to wait.
FULL_ROOM_BYTES: Final = 32 * 1024
# Answers that are smaller are not counted. A connection has few of them: its requests wait while it does not read.
COUNTED_BYTES_MIN: Final = 4096

# Requests with answers no larger than themselves, and Fetch, which looks for itself: these never wait for room.
SMALL_ANSWERS: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)


class ResponseMemory:
    __slots__ = ("_bytes_max", "_call_soon", "_serves_soon", "_waiting", "is_full", "scarce", "used_bytes")

    def __init__(
        self,
        bytes_max: int,
        scarce: Callable[[], None] = lambda: None,
        call_soon: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        self._bytes_max = bytes_max
        self._call_soon = call_soon
        self._serves_soon = False
        self._waiting: dict[Callable[[], None], None] = {}
        self.scarce = scarce
        """Called when the first request begins to wait."""
        self.used_bytes = 0
        self.is_full = False

    @property
    def is_scarce(self) -> bool:
        """Whether a request waits for room."""
        return bool(self._waiting)

    def room_bytes(self) -> int:
        """How many bytes of records one answer may have."""
        if self.is_full:
            return FULL_ROOM_BYTES
        return max((self._bytes_max - self.used_bytes) // PARTS, ROOM_BYTES_MIN)

    def add(self, size_bytes: int) -> None:
        """An answer was made."""
        self.used_bytes += size_bytes
        self.is_full = self.used_bytes >= self._bytes_max

    def remove(self, size_bytes: int) -> None:
        """An answer has left, or never will."""
        self.used_bytes -= size_bytes
        self.is_full = self.used_bytes >= self._bytes_max
        self._serve_soon()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once there is room; in the order of asking."""
        self._waiting[resume] = None
        if len(self._waiting) == 1:
            self.scarce()

    def forget(self, resume: Callable[[], None]) -> None:
        self._waiting.pop(resume, None)

    def _serve_soon(self) -> None:
        if self._waiting and not self.is_full and not self._serves_soon:
            self._serves_soon = True
            self._call_soon(self._serve)

    def _serve(self) -> None:
        """The first in line. The next has a turn of its own: each may read megabytes."""
        self._serves_soon = False
        if self._waiting and not self.is_full:
            resume = next(iter(self._waiting))
            del self._waiting[resume]
            resume()
            self._serve_soon()
