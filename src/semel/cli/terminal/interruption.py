"""SIGINT and SIGTERM for the commands that ask a broker.

A command is interrupted where it is, ends what it holds (``with``), and exits with 128 and the signal's number, as a
shell reports it: 130 for Ctrl-C, 143 for SIGTERM. A command that has to finish a step first asks ``interruptible``.
The broker has rules of its own: ``stop_signals.py``.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number


class Interruption:
    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def told(self) -> bool:
        """Whether a signal has come."""
        return self.number is not None


@contextlib.contextmanager
def raised_signals() -> Iterator[None]:
    """Within it a signal raises ``Interrupted`` wherever the main thread is. No other thread can ask for that."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        _raise_interrupted(number)

    with _handled_by(interrupt) if threading.current_thread() is threading.main_thread() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Within it, the first signal is only noted; the second interrupts. If one was noted, the end raises it."""
    interruption = Interruption()

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.told:
            _raise_interrupted(number)
        interruption.number = number

    with _handled_by(note):
        yield interruption
    if interruption.number is not None:
        raise Interrupted(interruption.number)


def _raise_interrupted(number: int) -> NoReturn:
    # The signal may come after a coroutine is made and before it is given to its loop. Python would tell the user so.
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
    raise Interrupted(number)


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    earlier = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, before in earlier.items():
            signal.signal(number, before)
