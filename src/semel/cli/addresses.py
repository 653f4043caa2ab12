"""Addresses to listen on: parsing them, and checking that they are free."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from semel.cli.exits import UsageError

if TYPE_CHECKING:
    from semel.types import Address


def parse_address(option: str, text: str) -> Address:
    """Parse ``HOST:PORT``. Raises ``UsageError``, which names the option."""
    from semel.types import Address

    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(f"{option} {text}: it takes the form HOST:PORT, with a port from 0 to 65535")
    return Address(host, int(port))


def check_free(host: str, port: int) -> None:
    """Raises the ``OSError`` that listening on this address would raise now."""
    import socket

    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    failures = []
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
        except OSError as error:
            failures.append(error)
            if error.errno == errno.EADDRINUSE:
                raise
    if len(failures) == len(found):
        raise failures[0]


def listening_failed(error: OSError, address: str) -> str:
    """Return the error message for an address on which the process cannot listen."""
    match error.errno:
        case errno.EADDRINUSE:
            return f"cannot listen: {address} is in use by another process"
        case errno.EADDRNOTAVAIL:
            return f"cannot listen: this machine has no address {address}"
        case _:
            return f"the broker cannot start: {error}"
