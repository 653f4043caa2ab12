"""One request at a time to one broker for one purpose; the next request has all that gathered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OneUnderWay:
    """``send`` makes a request of all that has gathered. ``ended`` must follow it, whatever the answer does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[], None]) -> None:
        self._loop = loop
        self._send = send
        self._is_under_way = False

    def begin(self) -> None:
        """Something has gathered: send it with all of this turn, unless a request is under way."""
        if not self._is_under_way:
            self._is_under_way = True
            self._loop.call_soon(self._send)

    def ended(self, *, has_more: bool) -> None:
        if has_more:
            self._loop.call_soon(self._send)
        else:
            self._is_under_way = False
