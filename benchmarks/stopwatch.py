"""How long something took, and how much of that the process was at work, with all its threads."""

from __future__ import annotations

import time
from typing import NamedTuple


class Taken(NamedTuple):
    records: int
    elapsed_s: float
    processor_s: float


class Stopwatch:
    """Started when it is made."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._processor_started = time.process_time()

    def elapsed_s(self) -> float:
        return time.perf_counter() - self._started

    def taken(self, records: int) -> Taken:
        return Taken(records, self.elapsed_s(), time.process_time() - self._processor_started)
