"""The actions that ``poll`` of a machine returns, for its driver to carry out.

Every connection has a number of its own, so that a late event of a closed connection is not taken for its successor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from semel.client.security.config import TokenProvider
from semel.types import Buffer


@dataclass(frozen=True, slots=True)
class Connect:
    connection: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Send:
    connection: int
    parts: list[Buffer]
    """A whole frame, in pieces."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close this connection. The driver reports nothing more about it: the machine has already handled its loss."""

    connection: int


@dataclass(frozen=True, slots=True)
class FetchToken:
    """Get a token for a connection that is to be opened or authenticated again, without blocking the event loop."""

    connection: int
    provider: TokenProvider


Action: TypeAlias = Connect | Send | Disconnect | FetchToken


class Machine(Protocol):
    """The interface of every machine, as its driver calls it: see ``semel.client.machine``."""

    def poll(self, now_ms: float) -> list[Action]: ...

    def connected(self, connection: int, now_ms: float) -> None: ...

    def received(self, connection: int, frame: Buffer, now_ms: float) -> None: ...

    def disconnected(self, connection: int, reason: str, now_ms: float) -> None: ...

    def token_received(self, connection: int, token: str, now_ms: float) -> None: ...

    def token_failed(self, connection: int, reason: str, now_ms: float) -> None: ...

    def refused(self, reason: str) -> None:
        """Fail for good: a broker's certificate is not trusted, or no token is given to this client."""

    def next_deadline_ms(self) -> float:
        """The time by which to call ``poll`` again; ``NEVER`` if only an event can change anything."""

    def shut(self, now_ms: float) -> None:
        """Fail all open calls and close all connections; the next ``poll`` returns the ``Disconnect`` actions."""
