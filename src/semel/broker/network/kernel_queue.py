"""The bytes of a connection that were sent and that the client has not acknowledged (``SIOCOUTQ``).

A transport knows only the bytes that the operating system has not taken, and the operating system takes them in steps
of megabytes, when a third of its buffer is free. By that number a client that reads slowly looks like one that does not
read. The number of unacknowledged bytes changes with every packet.
"""

from __future__ import annotations

import asyncio
import sys
from struct import Struct
from typing import Final

_INT: Final = Struct("i")


def unacknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Return the bytes that were sent and not acknowledged; 0 on systems where that cannot be known."""
    if sys.platform != "linux":
        return 0
    socket = transport.get_extra_info("socket")
    if socket is None:
        return 0
    import fcntl
    import termios

    size = bytearray(_INT.size)
    try:
        fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, size)
    except (OSError, ValueError):
        return 0  # Closed meanwhile.
    (queued_bytes,) = _INT.unpack(size)
    return int(queued_bytes)
