"""A broker in a process of its own: the event loop, the signals, the log on standard error."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from semel.memory import keep_freed_memory
from semel.net.event_loop import new_event_loop

if TYPE_CHECKING:
    from semel.broker.broker import Broker

# Four partitions of librdkafka's 1 MB, with room; a tenth of what a small JVM keeps.
_KEPT_BYTES: Final = 48 * 1024 * 1024


def run_broker(make_broker: Callable[[asyncio.AbstractEventLoop], Broker], *, ready: Callable[[Broker], None]) -> None:
    """Start the broker, say so, and serve until SIGTERM or SIGINT. A second signal ends the process at once."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(make_broker, ready))


async def _serve(make_broker: Callable[[asyncio.AbstractEventLoop], Broker], ready: Callable[[Broker], None]) -> None:
    loop = asyncio.get_running_loop()
    told_to_stop = asyncio.Event()

    def stop() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        told_to_stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    broker = make_broker(loop)
    await broker.start()
    # What start-up has made lives as long as the process; the collector need not walk through it again and again.
    gc.collect()
    gc.freeze()
    ready(broker)
    keep_freed_memory(_KEPT_BYTES)
    await told_to_stop.wait()
    await broker.stop()
