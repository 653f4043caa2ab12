"""How a process keeps memory that it has freed, and how long it may look for garbage.

A Fetch reads megabytes into a buffer that lives until they are sent, and a task on Spark works on megabytes at a time.
glibc gives such a buffer back to the kernel as soon as it is freed and gets it back page by page for the next one: on a
consumer's path that is more than half of the broker's processor time, with records of 1 KB a third of a task's. So it
is told to keep some. Elsewhere (musl, macOS) nothing is done and nothing is needed.

A full collection walks through every object that lives. With the state of 100,000 groups that takes 0.3 s, in which
nothing is served. The state has no cycles and needs no collector. So when a full collection has taken too long, what it
left alive is not looked at again.

This is for processes that are ours. A library has no business with the memory of the program that uses it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

# Numbered as in <malloc.h>.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8

# glibc's own maximum: larger buffers always go back at once.
_HEAP_BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024

_FULL: Final = 2  # The generation of a full collection.


def keep_freed_memory(kept_bytes: int, *, one_arena: bool = False) -> bool:
    """Says whether the C library could be told. ``one_arena``: keep it in one place, whichever thread has freed it."""
    import ctypes  # A few milliseconds that a start should not wait for.

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    options = [(_TRIM_THRESHOLD, kept_bytes), (_MMAP_THRESHOLD, _HEAP_BUFFER_BYTES_MAX)]
    if one_arena:
        options.append((_ARENA_MAX, 1))
    return all(mallopt(option, value) for option, value in options)


class FrozenSurvivors:
    """Freezes what survives a full collection that took longer than ``seconds_max``; as a callback of ``gc``.

    Before that nothing is frozen, so a process with little state loses no garbage. Afterwards a cycle that was alive
    then is never found when it dies; all else is freed as ever, when its last reference goes.
    """

    def __init__(self, seconds_max: float, now: Callable[[], float] = time.perf_counter) -> None:
        self._seconds_max = seconds_max
        self._now = now
        self._started = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._started = self._now()
        elif self._now() - self._started > self._seconds_max:
            gc.freeze()
