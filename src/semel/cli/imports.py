"""Imports what a broker has not needed yet, in a thread of its own.

A broker is ready before it has imported everything: each API's code comes with the first request for it. The
coordinators are some eighty modules and take a third of a second, in which no other request is served. So that the
first group does not pay for it, they are imported a moment after the start, beside the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from importlib import import_module
from typing import Final

# Later than a process that only starts and stops would live.
_AFTER_SECONDS: Final = 1.0
_MODULES: Final = (
    "semel.broker.produce.in_place_parser",
    "semel.broker.coordinators.coordinators",
    "semel.broker.coordinators.transactional_init",
    "semel.log.compaction.cleaner",
)


def import_rest_soon(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_later(_AFTER_SECONDS, threading.Thread(target=import_rest, name="imports", daemon=True).start)


def import_rest() -> None:
    from semel.broker.requests.routes import SERVED, handler_of

    # Without a descriptor to be had, or memory, the first request tries again, and says so.
    with contextlib.suppress(OSError, MemoryError):
        for module in _MODULES:
            import_module(module)
        for key in SERVED:
            handler_of(key)
