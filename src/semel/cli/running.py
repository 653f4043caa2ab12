"""Runs a broker in this process: the event loop, the signals, the log on standard error."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from semel.broker.log_lines import guard_handlers
from semel.cli.imports import import_rest_soon
from semel.cli.terminal.stop_signals import take_stop_signals, watch_stop_signals
from semel.memory import FrozenSurvivors, keep_freed_memory
from semel.net.event_loop import new_event_loop

if TYPE_CHECKING:
    from semel.broker.broker import Broker

logger = logging.getLogger("semel.broker")

# Room for fetches of four partitions, each with the 1 MB that librdkafka requests; a tenth of what a small JVM keeps.
_KEPT_BYTES: Final = 48 * 1024 * 1024
# How long the loop's thread keeps the GIL while a worker thread waits for it. Each system call of a commit releases the
# GIL and must get it again: with Python's default of 5 ms one commit beside a busy loop took some 100 ms. It is shorter
# than most turns of a busy loop: a loop that polls more often takes the GIL back each time before the worker wakes, and
# a worker's time of waiting begins again. With 0.5 ms, a commit beside a large request in pieces took 300 ms.
_SWITCH_INTERVAL_S: Final = 0.0001
# Less than the 50 ms that a turn of the event loop may take.
_COLLECTION_SECONDS_MAX: Final = 0.02


def run_broker(make_broker: Callable[[asyncio.AbstractEventLoop], Broker], *, ready: Callable[[Broker], None]) -> bool:
    """Start the broker, call ``ready``, and serve until SIGTERM or SIGINT. Returns whether the broker stopped cleanly.

    Raises what ``Broker.start`` raises, and nothing after that.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    guard_handlers()
    take_stop_signals()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(make_broker, ready))


async def _serve(make_broker: Callable[[asyncio.AbstractEventLoop], Broker], ready: Callable[[Broker], None]) -> bool:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_Unhandled())
    told_to_stop = asyncio.Event()
    watch_stop_signals(lambda: loop.call_soon_threadsafe(told_to_stop.set))
    broker = make_broker(loop)
    await broker.start()
    # The objects made at the start live as long as the process, so the garbage collector need not look at them again.
    gc.collect()
    gc.freeze()
    gc.callbacks.append(FrozenSurvivors(_COLLECTION_SECONDS_MAX))
    ready(broker)
    import_rest_soon(loop)
    keep_freed_memory(_KEPT_BYTES)
    await told_to_stop.wait()
    return await broker.stop()


class _Unhandled:
    """Handles exceptions that reach the event loop. A lack of file descriptors, with which no connection can be
    accepted, is logged once a minute."""

    def __init__(self) -> None:
        self._silent_until_s = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif loop.time() >= self._silent_until_s:
            self._silent_until_s = loop.time() + 60
            logger.error("no connection can be accepted for now: %s", error)
