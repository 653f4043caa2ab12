"""Finds stalled connections, which must be closed because their clients make no progress.

A connection holds memory while a request arrives and while an answer is unread; only its client can end that. The law:

- A connection is closed if for ``connections.max.stalled.ms`` its client reads nothing of its answers, sends nothing of
  a request that it began, or does not read what remains of a connection that is being closed.
- While requests of other clients wait for ``ResponseMemory``, connections are closed whose clients have read nothing
  for ``SCARCE_UNREAD_MS_MAX``: first those that have held memory longest, one for each request that waits, or more
  until there is room.
- While requests of other clients wait for ``RequestMemory``, ``SCARCE_STALLED_MS_MAX`` without progress is enough.
- In the last two cases slow progress is not enough: an answer must have been read, or a request must have arrived,
  completely within ``connections.max.stalled.ms``.

A connection whose client reads or sends slowly stays open as long as there is memory for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from semel.broker.network.connection import Connection
from semel.broker.network.request_memory import RequestMemory
from semel.broker.network.response_memory import ResponseMemory

# How long part of a request may hold memory without progress while other clients wait for memory.
SCARCE_STALLED_MS_MAX: Final = 1000
# The same for an answer. A client that reads it acknowledges some of it in each round trip, so this is longer than most
# round trips take. It is short because other clients wait that long for one that does not read.
SCARCE_UNREAD_MS_MAX: Final = 150


class StalledConnections:
    """Finds the stalled connections among those of one server."""

    def __init__(self, requests: RequestMemory, responses: ResponseMemory) -> None:
        self._requests = requests
        self._responses = responses
        # While RequestMemory is scarce: for each connection that holds some, the number of its frame and since when.
        self._arriving: dict[Connection, tuple[int, float]] = {}
        self._leaving_since_ms: float | None = None

    @property
    def is_memory_scarce(self) -> bool:
        """Whether requests wait for memory that other connections hold."""
        return self._requests.is_scarce or self._responses.is_scarce

    def find(
        self, connections: Iterable[Connection], *, now_ms: float, stalled_ms_max: float
    ) -> Iterator[tuple[Connection, str]]:
        """Yield each connection that must be closed, and the reason."""
        self._note_scarcity(now_ms)
        holding: list[tuple[float, Connection, float]] = []
        for connection in connections:
            unread_ms = connection.unread_ms(now_ms)
            reason = self._not_reading(connection, unread_ms, now_ms, stalled_ms_max)
            reason = reason or self._not_sending(connection, now_ms, stalled_ms_max)
            if reason is not None:
                yield connection, reason
            elif connection.paused_at_ms is not None and unread_ms >= SCARCE_UNREAD_MS_MAX:
                holding.append((connection.paused_at_ms, connection, unread_ms))
        yield from self._holding_needed_memory(holding)

    def _note_scarcity(self, now_ms: float) -> None:
        if not self._requests.is_scarce:
            self._arriving.clear()
        for closed in [connection for connection in self._arriving if not connection.is_open]:
            del self._arriving[closed]
        if not self._responses.is_scarce:
            self._leaving_since_ms = None
        elif self._leaving_since_ms is None:
            self._leaving_since_ms = now_ms

    def _holding_needed_memory(
        self, holding: list[tuple[float, Connection, float]]
    ) -> Iterator[tuple[Connection, str]]:
        """Yield the connections to close so that waiting requests get memory, of those that do not read."""
        waiting_requests, missing_bytes = self._responses.waiting_requests, self._responses.missing_bytes
        for _, connection, unread_ms in sorted(holding, key=lambda held: held[0]):
            if waiting_requests <= 0 and missing_bytes <= 0:
                return
            waiting_requests -= 1
            missing_bytes -= connection.unread_answer_bytes
            yield (
                connection,
                f"its client has read none of its answers for {unread_ms:.0f} ms, and others wait for the memory",
            )

    def _not_reading(
        self, connection: Connection, unread_ms: float, now_ms: float, stalled_ms_max: float
    ) -> str | None:
        paused_at_ms = connection.paused_at_ms
        if unread_ms >= stalled_ms_max and (paused_at_ms is not None or connection.is_closing):
            return f"its client has read none of its answers for {unread_ms:.0f} ms"
        since_ms = self._leaving_since_ms
        if since_ms is None or paused_at_ms is None:
            return None
        held_ms = now_ms - max(since_ms, paused_at_ms)
        if held_ms >= stalled_ms_max:
            return f"its client has not read its answers within {held_ms:.0f} ms, and others wait for the memory"
        return None

    def _not_sending(self, connection: Connection, now_ms: float, stalled_ms_max: float) -> str | None:
        silent_ms = now_ms - connection.active_at_ms
        awaits_bytes = connection.awaits_bytes
        if awaits_bytes and silent_ms >= stalled_ms_max:
            return f"part of a request has arrived and no byte more for {silent_ms:.0f} ms"
        if not self._requests.is_scarce:
            return None
        frame = connection.large_frame
        if frame is None:
            self._arriving.pop(connection, None)
            return None
        if awaits_bytes and silent_ms >= SCARCE_STALLED_MS_MAX:
            return f"part of a request has arrived and no byte more for {silent_ms:.0f} ms, and others wait for memory"
        known_frame, since_ms = self._arriving.get(connection, (frame, now_ms))
        if known_frame != frame:
            since_ms = now_ms
        self._arriving[connection] = (frame, since_ms)
        if now_ms - since_ms >= stalled_ms_max:
            return f"a request has not arrived whole within {now_ms - since_ms:.0f} ms, and others wait for memory"
        return None
