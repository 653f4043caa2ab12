"""The interface of a wire observer: it receives every request and response between clients and a broker, and every
fault that is applied to one."""

from __future__ import annotations

from typing import Protocol


class WireObserver(Protocol):
    """Receives the messages between clients and one broker.

    Its methods are called on the thread of the connections, in the order of the events there, and must not block.
    A frame is complete, with its size prefix. Connections are numbered from 1.
    """

    def opened(self, connection: int, peer: str) -> None:
        """A client has connected from ``peer``."""

    def requested(self, connection: int, frame: bytes) -> None:
        """A client has sent a request."""

    def request_lost(self, connection: int, correlation_id: int) -> None:
        """A fault has dropped the request: the broker never sees it, and the connection is closed."""

    def request_held(self, connection: int, correlation_id: int) -> None:
        """A fault holds the request before the broker sees it."""

    def request_released(self, connection: int, correlation_id: int) -> None:
        """The request that was held is passed on to the broker."""

    def answered(self, connection: int, frame: bytes) -> None:
        """A response is sent to the client."""

    def answer_lost(self, connection: int, frame: bytes) -> None:
        """A fault has dropped the broker's response: the connection is closed instead of sending it."""

    def closed(self, connection: int) -> None:
        """The connection has ended."""
