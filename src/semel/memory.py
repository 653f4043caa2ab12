"""How a process keeps memory that it has freed.

A Fetch reads megabytes into a buffer that lives until they are sent, and a task on Spark works on megabytes at a time.
glibc gives such a buffer back to the kernel as soon as it is freed and gets it back page by page for the next one: on a
consumer's path that is more than half of the broker's processor time, with records of 1 KB a third of a task's. So it
is told to keep some. Elsewhere (musl, macOS) nothing is done and nothing is needed.

This is for processes that are ours. A library has no business with the memory of the program that uses it.
"""

from __future__ import annotations

from typing import Final

# Numbered as in <malloc.h>.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8

# glibc's own maximum: larger buffers always go back at once.
_HEAP_BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024


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
