"""Delayed operations (Kafka's term): work that was begun and cannot be finished yet.

The vocabulary of waiting. What ends a wait has one of four names, everywhere in the broker:

    committed   the high watermark has passed what the operation waits for
    failed      the partition went offline or was deleted
    expired     the deadline has passed
    abandoned   the client has left

An operation has the methods for what can happen to it. A Produce and a Fetch have all four. A timer has ``expired``
only, and a request as its connection sees it has ``abandoned`` only.
"""

from __future__ import annotations

from typing import Protocol

from semel.errors import ErrorCode


class AwaitsCommit(Protocol):
    """Waits for a partition. The token is what the operation gave the partition to be reminded of."""

    def committed(self, token: object) -> None: ...

    def failed(self, token: object, code: ErrorCode) -> None: ...


class Expires(Protocol):
    """Has a deadline."""

    def expired(self) -> None:
        """The deadline has passed. Called once, and never after the deadline was discarded."""


class HasClient(Protocol):
    """Runs on behalf of a client."""

    def abandoned(self) -> None:
        """The client has left: stop waiting, answer nothing."""


class DelayedOperation(AwaitsCommit, Expires, HasClient, Protocol):
    """A request that waits for a partition, until its deadline, on behalf of its client."""
