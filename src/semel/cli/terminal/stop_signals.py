"""The handling of SIGTERM and SIGINT by the broker, which stops in bounded time.

A separate thread waits for the signals, because the event loop may hang in a disk that does not answer. The first
signal tells the loop to stop. The process ends at once with the second signal, or when the time is up. That is like
``kill -9``: nothing acknowledged is lost, and the next start recovers.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Final

from semel.cli.exits import Exit

SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})

STOP_SECONDS_MAX: Final = 8.5
"""The longest time from the first signal to the end of the process."""


def take_stop_signals() -> None:
    """Block SIGTERM and SIGINT for the whole process, so that only ``watch_stop_signals`` receives them.

    It must be called before any other thread begins: a signal goes to a thread that has not blocked it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def watch_stop_signals(told: Callable[[], object], *, timeout_s: float = STOP_SECONDS_MAX) -> None:
    """Call ``told``, from another thread, when the first signal comes. The process ends with the second signal, or
    after ``timeout_s``."""

    def watch() -> None:
        signal.sigwait(SIGNALS)
        timer = threading.Timer(timeout_s, _end, [f"not stopped within {timeout_s:g} s"])
        timer.daemon = True
        timer.start()
        told()
        signal.sigwait(SIGNALS)
        _end("told to stop twice")

    threading.Thread(target=watch, name="semel-signals", daemon=True).start()


def _end(reason: str) -> None:
    # Not written with logging, whose lock a hanging thread may hold.
    os.write(2, f"semel: {reason}: ended as it was; the next start recovers\n".encode())
    os._exit(Exit.FAILED)
