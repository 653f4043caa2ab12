"""The memory of answers that clients have not read yet, over all connections (``queued.max.response.bytes``).

An answer counts from the moment it is made until the operating system has taken it. So a client that sends requests and
does not read the answers uses up memory. Three rules keep it within its limit:

- Each answer to Fetch may use a part of the memory that is left, never all of it (``room_bytes``), so that there is
  some for clients that read beside many that do not.
- All answers to Fetch together may use three quarters of the limit, so that Metadata and similar requests are answered
  while records are not read.
- If no memory is left, requests with large answers wait in a queue until there is some (``wait``). Meanwhile the server
  closes connections whose clients read nothing (``StalledConnections``). A Fetch whose answer is small does not wait,
  and a client that has read a large answer before is served before those that have not.

The law: the counted bytes exceed the limit by one answer at most, and by ``FULL_ROOM_BYTES`` for each connection. That
one answer may be large: if there is room, the first batch of a Fetch is always sent whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from semel.wire.apis import ApiKey

# An answer to Fetch may use this fraction, 1/16, of the memory that is left: with forty clients that do not read, each
# with a batch of 1 MB, there is still room for others within the default limit.
PARTS: Final = 16
# The least that an answer to Fetch may use while there is room. With less, clients would need many more requests.
ROOM_BYTES_MIN: Final = 64 * 1024
# How many bytes an answer to Fetch may have when no memory is left. It is less than ROOM_BYTES_MIN: by that, the
# reading of a Fetch recognizes that a larger first batch has to wait.
FULL_ROOM_BYTES: Final = 32 * 1024
# Smaller answers are not counted. A connection has few of them, because its requests wait while it does not read.
COUNTED_BYTES_MIN: Final = 4096

# Requests whose answers are not larger than the requests, and Fetch, which checks the room itself: these never wait in
# the connection.
_SMALL_ANSWERS: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)


def has_large_answer(frame: memoryview) -> bool:
    """Whether a request may have a large answer, by its API key, the first 16 bits. Shorter frames are refused."""
    return len(frame) > 1 and (frame[0] != 0 or frame[1] not in _SMALL_ANSWERS)


Resume: TypeAlias = Callable[[], None]


@dataclass(slots=True)
class _WaitQueue:
    """A queue of requests that wait until less than ``below_bytes`` is used, in their order."""

    below_bytes: int
    waiting: dict[Resume, None] = field(default_factory=dict)


class ResponseMemory:
    """The memory of unread answers of one server, and the requests that wait for it."""

    __slots__ = (
        "_bytes_max",
        "_call_soon",
        "_queues",
        "_records_bytes_max",
        "_serves",
        "_serves_soon",
        "scarce",
        "used_bytes",
    )

    def __init__(
        self,
        bytes_max: int,
        scarce: Callable[[], None] = lambda: None,
        call_soon: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        self._bytes_max = bytes_max
        self._records_bytes_max = bytes_max * 3 // 4
        # Served in this order: requests without records, Fetches of clients that have read, other Fetches.
        self._queues = (
            _WaitQueue(self._bytes_max),
            _WaitQueue(self._records_bytes_max),
            _WaitQueue(self._records_bytes_max),
        )
        self._call_soon = call_soon
        self._serves_soon = False
        self._serves = False  # Whether the first request of a queue is being served, ahead of the others.
        self.scarce = scarce
        """Called when the first request begins to wait."""
        self.used_bytes = 0

    @property
    def waiting_requests(self) -> int:
        return sum(len(queue.waiting) for queue in self._queues)

    @property
    def is_scarce(self) -> bool:
        """Whether a request waits for memory."""
        return any(queue.waiting for queue in self._queues)

    @property
    def missing_bytes(self) -> int:
        """How many bytes must be released before the first waiting request is served, with one part as its room."""
        for queue in self._queues:
            if queue.waiting:
                return max(0, self.used_bytes - queue.below_bytes + queue.below_bytes // PARTS)
        return 0

    @property
    def is_full(self) -> bool:
        """Whether a request with a large answer has to wait."""
        return self.used_bytes >= self._bytes_max

    def is_full_of_records(self, *, has_read: bool) -> bool:
        """Whether a Fetch with a large first batch has to wait: there is no room, or other Fetches wait before it."""
        if self.used_bytes >= self._records_bytes_max:
            return True
        _, readers, others = self._queues
        return not self._serves and bool(readers.waiting or (others.waiting and not has_read))

    def room_bytes(self, *, has_read: bool) -> int:
        """Return how many bytes of records one answer may have."""
        if self.is_full_of_records(has_read=has_read):
            return FULL_ROOM_BYTES
        return max((self._records_bytes_max - self.used_bytes) // PARTS, ROOM_BYTES_MIN)

    def add(self, size_bytes: int) -> None:
        """Count an answer that was made."""
        self.used_bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        """Release the bytes of an answer that was sent, or that will not be sent."""
        self.used_bytes -= size_bytes
        self._serve_soon()

    def wait(self, resume: Resume) -> None:
        """Call ``resume`` once there is room."""
        self._wait_in(self._queues[0], resume)

    def wait_with_records(self, resume: Resume, *, has_read: bool) -> None:
        """Call ``resume`` once there is room for records. ``has_read``: the client has read a large answer before."""
        self._wait_in(self._queues[1 if has_read else 2], resume)

    def forget(self, resume: Resume) -> None:
        for queue in self._queues:
            queue.waiting.pop(resume, None)

    def _wait_in(self, queue: _WaitQueue, resume: Resume) -> None:
        was_scarce = self.is_scarce
        queue.waiting[resume] = None
        if not was_scarce:
            self.scarce()

    def _first(self) -> _WaitQueue | None:
        """Return the queue whose first request can be served; None if no request can."""
        for queue in self._queues:
            if queue.waiting:
                return queue if self.used_bytes < queue.below_bytes else None
        return None

    def _serve_soon(self) -> None:
        if not self._serves_soon and self._first() is not None:
            self._serves_soon = True
            self._call_soon(self._serve)

    def _serve(self) -> None:
        """Resume the first waiting request. The next one is resumed in a later turn: each may read megabytes."""
        self._serves_soon = False
        if (queue := self._first()) is not None:
            resume = next(iter(queue.waiting))
            del queue.waiting[resume]
            self._serves = True
            try:
                resume()
            finally:
                self._serves = False
            self._serve_soon()
