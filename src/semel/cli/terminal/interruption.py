"""The handling of SIGINT and SIGTERM by all commands but ``semel serve``.

A signal interrupts a command wherever it is. The command leaves its ``with`` blocks, and exits with 128 plus the
signal's number, as a shell reports it: 130 for Ctrl-C, 143 for SIGTERM. A command that has to finish a step first uses
``interruptible``. The broker has its own handling: ``stop_signals.py``.
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
    """SIGINT or SIGTERM was received."""

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
    def was_signalled(self) -> bool:
        """Whether a signal was received."""
        return self.number is not None


@contextlib.contextmanager
def raised_signals() -> Iterator[None]:
    """Within this block a signal raises ``Interrupted`` in the main thread, wherever that is. In another thread the
    block does nothing, because only the main thread may set signal handlers."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        _raise_interrupted(number)

    with _handled_by(interrupt) if threading.current_thread() is threading.main_thread() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Within this block the first signal is only remembered, and the second raises ``Interrupted`` at once.

    The end of the block raises ``Interrupted`` if a signal was remembered.
    """
    interruption = Interruption()

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.was_signalled:
            _raise_interrupted(number)
        interruption.number = number

    with _handled_by(note):
        yield interruption
    if interruption.number is not None:
        raise Interrupted(interruption.number)


def _raise_interrupted(number: int) -> NoReturn:
    # If the signal comes after a coroutine is made and before its loop runs it, Python would print a warning.
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
