"""Imports the modules that a broker has not needed yet, in a thread of its own.

A broker is ready before it has imported everything: the code of each API is imported with the first request for it. The
coordinators are some eighty modules, whose import takes a third of a second in which no other request is served. So
that the first group does not wait for it, they are imported a moment after the start, in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from importlib import import_module
from typing import Final

# Long enough that a process that only starts and stops has ended before.
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

    # If descriptors or memory are short now, the import is tried again with the first request, which gets the error.
    with contextlib.suppress(OSError, MemoryError):
        for module in _MODULES:
            import_module(module)
        for key in SERVED:
            handler_of(key)
