"""Whether a broker is there at all, found out before a command asks it for something.

A client waits for its brokers as long as its settings allow, a minute by default: a program that runs for weeks has to
outlast a restart. A person at a terminal has more often mistyped an address. So a command gives up after a few seconds;
that is enough for a broker that was started in the line before.

A broker is there if it answers ApiVersions. With TLS a connection has to do: what is wrong beyond it is the client's to
say.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from semel.errors import ErrorCode, TimedOut
from semel.wire.apis import ApiKey

if TYPE_CHECKING:
    from semel.client.config.common import Address

WITHIN_S: Final = 3.5
_PAUSE_S: Final = 0.1
# How long one address has, in the first round over all of them; in each round twice as long as in the one before.
_FIRST_ROUND_S: Final = 0.5
_CORRELATION_ID: Final = 1
# ApiVersions, version 0, from a client without a name: size, API key, version, correlation id, a null string.
_QUESTION: Final = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, _CORRELATION_ID, -1)
# How its answer begins: size, correlation id, error code.
_ANSWER: Final = struct.Struct(">iih")


def await_broker(addresses: Sequence[Address], *, has_tls: bool, within_s: float = WITHIN_S) -> None:
    """Return when there is a broker at one of the addresses. Raises TimedOut, with what came of the last attempts."""
    until = time.monotonic() + within_s
    round_s = _FIRST_ROUND_S
    while True:
        reasons = []
        for address in addresses:
            # A part of the time for each, so that one that drops packets leaves some for the others.
            left_s = max(until - time.monotonic(), _PAUSE_S)
            try:
                _ask(address, has_tls=has_tls, timeout_s=min(round_s, left_s / len(addresses)))
            except OSError as error:
                reasons.append(f"{address.host}:{address.port} ({error.strerror or error})")
            else:
                return
        if time.monotonic() + _PAUSE_S >= until:
            told = ", ".join(reasons)
            raise TimedOut(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"no broker answers at {told}. Is one running there? --bootstrap-server names another address",
            )
        round_s *= 2
        time.sleep(_PAUSE_S)


def answers(address: Address, *, has_tls: bool, timeout_s: float) -> bool:
    """Whether there is a broker at this address now."""
    try:
        _ask(address, has_tls=has_tls, timeout_s=timeout_s)
    except OSError:
        return False
    return True


def _ask(address: Address, *, has_tls: bool, timeout_s: float) -> None:
    """Raises OSError."""
    with socket.create_connection((address.host, address.port), timeout=timeout_s) as connection:
        if has_tls:
            return
        connection.sendall(_QUESTION)
        answer = b""
        while len(answer) < _ANSWER.size:
            some = connection.recv(_ANSWER.size - len(answer))
            if not some:
                raise ConnectionError("it closes the connection")
            answer += some
        _, correlation_id, error_code = _ANSWER.unpack(answer)
        if (correlation_id, error_code) != (_CORRELATION_ID, ErrorCode.NONE):
            raise ConnectionError("what listens there is no broker")
