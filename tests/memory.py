"""How much memory a piece of work takes: counted in its own thread, so that no other one disturbs the count."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

GARBAGE_THRESHOLD: Final = 50_000
"""So many objects are made before cycles of them are looked for. At Python's 700 the simulations spend a tenth of their
time on that."""

_NEVER_S: Final = 1e6


def held_bytes(work: Callable[[], object]) -> int:
    """What is left allocated when the work is done, with what it returns still alive."""
    with _alone():
        result = work()
        held, _ = tracemalloc.get_traced_memory()
        del result
    return held


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that was allocated at any time during the work."""
    with _alone():
        work()
        _, peak = tracemalloc.get_traced_memory()
    return peak


@contextmanager
def _alone() -> Iterator[None]:
    """Count what Python allocates, and let nothing else of this process allocate meanwhile.

    A thread that works, and waits for nothing, keeps the interpreter until the switch interval is over: threads that
    earlier tests left behind do not run in between. Nor are objects finalised that belong to others.
    """
    interval_s, collects = sys.getswitchinterval(), gc.isenabled()
    gc.disable()
    sys.setswitchinterval(_NEVER_S)
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        sys.setswitchinterval(interval_s)
        if collects:
            gc.enable()
