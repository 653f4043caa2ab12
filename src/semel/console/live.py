"""A page as an event stream: it is rendered every few seconds, and sent when it has changed.

The stream has the same address as the page; a browser's EventSource asks for it with ``Accept: text/event-stream``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

# The largest part of the time that is spent on rendering a page: one that takes long is rendered less often.
_PART_MAX: Final = 0.2
_RETRY_MS: Final = 2_000


class Streams:
    """The open event streams. ``end`` ends them when the console stops."""

    def __init__(self, streams_max: int = 64) -> None:
        self._ending = asyncio.Event()
        self._streams_max = streams_max
        self._open = 0

    @property
    def is_full(self) -> bool:
        return self._open >= self._streams_max

    def end(self) -> None:
        self._ending.set()

    async def events(self, render: Callable[[], Awaitable[tuple[str, float]]]) -> AsyncIterator[bytes]:
        """Yield the page now, and again each time that it has changed; else a comment, to keep the connection alive.

        ``render`` returns the page and the number of seconds until it is to be rendered again.
        """
        self._open += 1
        try:
            yield f"retry: {_RETRY_MS}\n\n".encode()
            last = None
            while not self._ending.is_set():
                begun = time.monotonic()
                html, every_s = await render()
                took = time.monotonic() - begun
                yield b": as before\n\n" if html == last else _event(html)
                last = html
                await self._pause(max(every_s, took / _PART_MAX))
        finally:
            self._open -= 1

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return


def _event(html: str) -> bytes:
    # Every line of an event has its own prefix, so that a line break within a record cannot end the event.
    lines = html.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return ("".join(f"data: {line}\n" for line in lines) + "\n").encode("utf-8", "replace")
