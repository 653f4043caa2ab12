"""What a connection is joined to: the server that accepted it, and the requests that are answered later."""

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
    """A request that is answered later, as far as its connection is concerned: a place in the line."""

    parts: list[Buffer] | None
    """The answer, once there is one. An empty list is the answer to a request that wants none."""


class AcceptingServer(Protocol):
    """What a connection needs from the server that accepted it."""

    clock: Clock
    received_bytes: Counter
    sent_bytes: Counter
    responses: ResponseMemory
    soon: Callable[[Callable[[], None]], object]
    """Calls back in one of the next turns of the loop, when all others that wait for one had theirs."""

    def opened(self, connection: Connection) -> bool:
        """Whether this connection may stay."""

    def closed(self, connection: Connection) -> None: ...

    def request(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request. The frame is good only during this call. Raises nothing but DecodeError."""

    def refused(self, connection: Connection, reason: object) -> None:
        """What this client sent cannot be served; its connection is being closed."""
