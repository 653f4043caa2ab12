"""Sends one request at a time to one broker for one purpose; the next has all that was collected meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class SingleInFlight:
    """Limits the requests to one broker for one purpose to one at a time.

    ``send`` sends a request with all that was collected. After each request ``ended`` must be called, also if handling
    the response has failed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[], None]) -> None:
        self._loop = loop
        self._send = send
        self._is_under_way = False

    def begin(self) -> None:
        """Send a request at the end of this turn of the event loop, unless one is under way."""
        if not self._is_under_way:
            self._is_under_way = True
            self._loop.call_soon(self._send)

    def ended(self, *, has_more: bool) -> None:
        if has_more:
            self._loop.call_soon(self._send)
        else:
            self._is_under_way = False
