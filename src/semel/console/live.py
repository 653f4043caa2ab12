"""A page as an event stream: rendered again every few seconds, and sent where it has changed.

The stream has the same address as the page; a browser's EventSource asks for it with ``Accept: text/event-stream``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

# A page that took long to put together is asked for less often: at most this part of the time goes into it.
_PART_MAX: Final = 0.2
_RETRY_MS: Final = 2_000


class Streams:
    """The event streams that are open. They end when the console does."""

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
        """The page now, and again whenever it has changed. A comment in between shows that the line is alive.

        ``render`` returns the page, and after how many seconds it is to be looked at again.
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
    # Every line of an event has its own prefix: a line break within a record cannot end the event.
    lines = html.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return ("".join(f"data: {line}\n" for line in lines) + "\n").encode("utf-8", "replace")
