"""Settings of memory for our own processes: keep freed memory, and bound the time of garbage collections.

A Fetch reads megabytes into a buffer that lives until they are sent, and a task on Spark works on megabytes at a time.
glibc returns such a buffer to the kernel as soon as it is freed, and gets the memory of the next one page by page. That
takes more than half of the broker's processor time for consumers, and with records of 1 KB a third of the time of a
task. So glibc is configured to keep some freed memory. With other C libraries (musl, macOS) nothing is done, and
nothing is needed.

A full collection visits every live object. With the state of 100,000 groups that takes 0.3 s, in which no request is
served. The state has no cycles and needs no collector. So after a full collection that took too long, the objects that
survived it are frozen: later collections do not visit them.

Only processes that Semel starts use this module. A library must not change the memory settings of the program that
uses it.
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

# glibc's own maximum: larger buffers are always returned to the kernel at once.
_HEAP_BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024

_FULL: Final = 2  # The generation of a full collection.


def keep_freed_memory(kept_bytes: int, *, one_arena: bool = False) -> bool:
    """Make the C library keep up to ``kept_bytes`` of freed memory. Returns whether it accepted the settings.

    ``one_arena``: all threads share one arena, so that memory freed by one thread is used again by another.
    """
    import ctypes  # Imported here: it takes a few milliseconds, which would delay the start.

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    options = [(_TRIM_THRESHOLD, kept_bytes), (_MMAP_THRESHOLD, _HEAP_BUFFER_BYTES_MAX)]
    if one_arena:
        options.append((_ARENA_MAX, 1))
    return all(mallopt(option, value) for option, value in options)


class FrozenSurvivors:
    """A callback for ``gc.callbacks``: freezes the objects that survive a full collection longer than ``seconds_max``.

    Until then nothing is frozen, so a process with little state has all its garbage collected. Afterwards a frozen
    reference cycle is never freed, even when it becomes garbage; every other object is freed with its last reference.
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
