"""The trace of a simulation: its events in order, with a digest by which two runs are compared.

Two runs of one seed must give equal digests, also in another process with another PYTHONHASHSEED. So an event's text
may contain names and numbers, but never an ``id()``, a real time or anything that depends on the order of a set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple


class Event(NamedTuple):
    time_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.time_s:12.6f}  {self.text}"


class Trace:
    """The events of one run. ``now`` is virtual time in seconds: ``VirtualLoop.time``."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # Plain tuples, because they are faster to make: a run has thousands of events, and few traces are read.
        self._events: list[tuple[float, str]] = []

    def record(self, text: str) -> None:
        self._events.append((self._now(), text))

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(Event(time_s, text) for time_s, text in self._events)

    def __len__(self) -> int:
        return len(self._events)

    def __str__(self) -> str:
        return self.tail(len(self._events))

    def tail(self, count: int) -> str:
        return "\n".join(str(Event(*event)) for event in self._events[max(0, len(self._events) - count) :])

    def digest(self) -> str:
        """Return a digest that is equal for two runs if and only if they had the same events at the same times."""
        running = hashlib.sha256()
        for time_s, text in self._events:
            running.update(f"{time_s!r} {text}\n".encode())
        return running.hexdigest()
