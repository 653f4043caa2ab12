"""Tells the service manager that started this process that it is ready: systemd's protocol for ``Type=notify``."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

_VARIABLE: Final = "NOTIFY_SOCKET"


def notify_ready() -> None:
    """Tell the service manager that this process is ready. Without one nothing happens, and errors are ignored."""
    address = os.environ.get(_VARIABLE)
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # It is an abstract socket of Linux.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification:
        notification.settimeout(1)
        notification.sendto(b"READY=1", address)
