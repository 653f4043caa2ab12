"""What the operating system still holds of a connection's sent bytes (``SIOCOUTQ``).

A transport knows what it could not hand over; the operating system takes that in steps of megabytes, when a third of
its buffer is free. A client that reads slowly would look like one that does not read at all. What its side has not
acknowledged yet moves with every packet.
"""

from __future__ import annotations

import asyncio
import sys
from struct import Struct
from typing import Final

_INT: Final = Struct("i")


def unacknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Bytes that were sent and not acknowledged, 0 where that cannot be known."""
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
