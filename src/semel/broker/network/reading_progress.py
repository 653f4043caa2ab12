"""Measures whether a client reads its answers, from one call to the next."""

from __future__ import annotations

import asyncio

from semel.broker.network.kernel_queue import unacknowledged_bytes


class ReadingProgress:
    __slots__ = ("_since_ms", "_unread_bytes")

    def __init__(self) -> None:
        self._unread_bytes = 0  # At the last call.
        self._since_ms = 0.0

    def unread_ms(self, transport: asyncio.Transport | None, now_ms: float) -> float:
        """Return for how long the client has read nothing of its answers; 0 if no answer waits, or if it reads."""
        unread_bytes = 0 if transport is None else transport.get_write_buffer_size()
        if unread_bytes and transport is not None:
            # Progress is what the client has acknowledged. What the operating system takes moves in large steps.
            unread_bytes += unacknowledged_bytes(transport)
        if not 0 < self._unread_bytes <= unread_bytes:
            self._since_ms = now_ms
        self._unread_bytes = unread_bytes
        return now_ms - self._since_ms
