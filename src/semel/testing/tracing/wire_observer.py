"""The observer of a wire: told of every message between a client and a broker, and of what faults make of it."""

from __future__ import annotations

from typing import Protocol


class WireObserver(Protocol):
    """Its methods are called on the thread of the wire, in the order in which things happen there, and must not block.

    A frame is whole, with its size in front. Connections are numbered from 1 on.
    """

    def opened(self, connection: int, peer: str) -> None:
        """A client has connected from ``peer``."""

    def requested(self, connection: int, frame: bytes) -> None:
        """A client has sent a request."""

    def request_lost(self, connection: int, correlation_id: int) -> None:
        """A fault: the broker never sees the request, and the connection is closed."""

    def request_held(self, connection: int, correlation_id: int) -> None:
        """A fault: the request waits before the broker."""

    def request_released(self, connection: int, correlation_id: int) -> None:
        """The request that was held goes on to the broker."""

    def answered(self, connection: int, frame: bytes) -> None:
        """The client is sent an answer."""

    def answer_lost(self, connection: int, frame: bytes) -> None:
        """A fault: the broker has answered, and the connection is closed instead."""

    def closed(self, connection: int) -> None:
        """The connection has ended."""
