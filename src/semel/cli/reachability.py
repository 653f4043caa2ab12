"""The check whether a broker can be reached at all, made before a command uses it.

A client waits for its brokers as long as its settings allow, a minute by default: a program that runs for weeks has to
outlast a restart. At a terminal, a mistyped address is more likely. So a command gives up after a few seconds, which is
enough for a broker that the command before it has started.

A broker can be reached if it answers ApiVersions. With TLS a TCP connection is enough; the client reports any error
after that.
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
    from semel.types import Address

WITHIN_S: Final = 3.5
_PAUSE_S: Final = 0.1
# The timeout for one address in the first round over all addresses. Each round doubles it.
_FIRST_ROUND_S: Final = 0.5
_CORRELATION_ID: Final = 1
# ApiVersions, version 0, from a client without a name: size, API key, version, correlation id, a null string.
_QUESTION: Final = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, _CORRELATION_ID, -1)
# The beginning of the response: size, correlation id, error code.
_ANSWER: Final = struct.Struct(">iih")


def await_broker(addresses: Sequence[Address], *, has_tls: bool, within_s: float = WITHIN_S) -> None:
    """Wait until a broker answers at one of the addresses. Raises ``TimedOut``, with the errors of the last round."""
    until = time.monotonic() + within_s
    round_s = _FIRST_ROUND_S
    while True:
        reasons = []
        for address in addresses:
            # Each address gets a part of the time, so that one that drops packets does not use up all of it.
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
    """Whether a broker answers at this address now."""
    try:
        _ask(address, has_tls=has_tls, timeout_s=timeout_s)
    except OSError:
        return False
    return True


def _ask(address: Address, *, has_tls: bool, timeout_s: float) -> None:
    """Connect and, without TLS, send ApiVersions. Raises ``OSError`` if no broker answers."""
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
