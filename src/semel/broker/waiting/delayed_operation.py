"""The protocols of delayed operations (Kafka's term): work that was begun and cannot be finished yet.

A wait ends in one of four ways, whose names are the same everywhere in the broker:

    committed   the high watermark has passed what the operation waits for
    failed      the partition went offline or was deleted, or its term of leadership has ended
    expired     the deadline has passed
    abandoned   the client has left

An operation has a method for each way in which its wait can end. A Produce and a Fetch have all four. A timer has only
``expired``, and a connection calls only ``abandoned``.
"""

from __future__ import annotations

from typing import Protocol

from semel.errors import ErrorCode


class AwaitsCommit(Protocol):
    """An operation that waits for a partition. It gives the partition a token, and is called with that token."""

    def committed(self, token: object) -> None: ...

    def failed(self, token: object, code: ErrorCode) -> None: ...


class Expires(Protocol):
    """An operation with a deadline."""

    def expired(self) -> None:
        """Called once when the deadline has passed, and never after the deadline was discarded."""


class HasClient(Protocol):
    """An operation that runs on behalf of a client."""

    def abandoned(self) -> None:
        """Called when the client has left: stop waiting, and send no response."""


class DelayedOperation(AwaitsCommit, Expires, HasClient, Protocol):
    """A request that waits for a partition, until its deadline, on behalf of its client."""
