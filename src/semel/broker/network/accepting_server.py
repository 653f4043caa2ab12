"""The protocols that a connection uses: of the server that accepted it, and of requests that are answered later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from semel.broker.metrics.metrics import Counter
from semel.broker.network.response_memory import ResponseMemory
from semel.broker.waiting.delayed_operation import HasClient
from semel.clock import Clock
from semel.types import Buffer

if TYPE_CHECKING:
    from semel.broker.network.connection import Connection


class DelayedResponse(HasClient, Protocol):
    """A request that is answered later, as its connection sees it: an entry in the queue of answers."""

    parts: list[Buffer] | None
    """The encoded answer; None before there is one, and an empty list if the request has no answer (acks=0)."""


class AcceptingServer(Protocol):
    """The server that accepted a connection, as the connection uses it."""

    clock: Clock
    received_bytes: Counter
    sent_bytes: Counter
    responses: ResponseMemory
    soon: Callable[[Callable[[], None]], object]
    """Calls a function in one of the next turns of the event loop, after those that were queued before."""

    def opened(self, connection: Connection) -> bool:
        """Register a new connection. Returns whether it may stay open."""

    def closed(self, connection: Connection) -> None: ...

    def request(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request. The frame is valid only during this call. Raises nothing but DecodeError."""

    def refused(self, connection: Connection, reason: object) -> None:
        """Log and count that a connection is closed because what its client sent cannot be served."""
