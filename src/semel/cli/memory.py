"""How the process keeps memory that it has freed.

A Fetch reads megabytes into a buffer that lives until they are sent. glibc gives such a buffer back to the kernel as
soon as it is freed and gets it back page by page for the next one: on a consumer's path that is more than half of the
broker's processor time. So it is told to keep some. Elsewhere (musl, macOS) nothing is done and nothing is needed.
"""

from __future__ import annotations

from typing import Final

# Numbered as in <malloc.h>.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

# Four partitions of librdkafka's 1 MB, with room; a tenth of what a small JVM keeps.
KEPT_BYTES: Final = 48 * 1024 * 1024
# glibc's own maximum: larger buffers always go back at once.
HEAP_BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Says whether the C library could be told."""
    import ctypes  # A few milliseconds that a start should not wait for.

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, HEAP_BUFFER_BYTES_MAX))
