"""What a machine wants done. Each connection has a number of its own, so that what is late is told from what is new."""

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
    """Close it. Nothing more is heard of it: the machine has drawn its conclusions already."""

    connection: int


@dataclass(frozen=True, slots=True)
class FetchToken:
    """Call the provider, without holding up the loop: a token for a connection, before it is made or while it lasts."""

    connection: int
    provider: TokenProvider


Action: TypeAlias = Connect | Send | Disconnect | FetchToken


class Machine(Protocol):
    """What drives a client: see ``semel.client.machine``."""

    def poll(self, now_ms: float) -> list[Action]: ...

    def connected(self, connection: int, now_ms: float) -> None: ...

    def received(self, connection: int, frame: Buffer, now_ms: float) -> None: ...

    def disconnected(self, connection: int, reason: str, now_ms: float) -> None: ...

    def token_received(self, connection: int, token: str, now_ms: float) -> None: ...

    def token_failed(self, connection: int, reason: str, now_ms: float) -> None: ...

    def refused(self, reason: str) -> None:
        """A broker's certificate is not trusted, or no token is given to this client: trying again changes nothing."""

    def next_deadline_ms(self) -> float:
        """When to poll again at the latest; ``NEVER`` if only an event can change anything."""

    def shut(self, now_ms: float) -> None:
        """Give up what is left, and every connection; the last ``poll`` says which."""
