"""A decision: what a coordinator's handler returns. A response, the records that make it true, and effects.

A handler reads state and changes nothing. The runtime appends the records to the coordinator's partition, replays them
into the shard with nothing in between, and sends the response and carries out the effects only once the records are
committed. A decision without records waits for the uncommitted records that it may rest on, so no response contains
what a failover could undo.

Some state of a coordinator is not worth a record: which members are joining right now, when a member last sent a
heartbeat. ``changes`` holds the changes of such state. They are applied after the records were replayed, and not at
all if the append failed; a failover loses them, and the members then send their requests again.

A request need not be answered by its own decision. It may be ``DEFERRED``: the shard keeps its waiter and answers it
with a later decision. And a decision may ``wait_for`` an id: then the same request is decided again when that id's next
record has been replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from semel.errors import ErrorCode

Response = TypeVar("Response", covariant=True)
Result = TypeVar("Result")
Record = TypeVar("Record")
Effect = TypeVar("Effect")


class Waiter(NamedTuple, Generic[Result]):
    """A request that waits for its answer. A shard keeps it and returns it in an ``Answer``; it never calls it."""

    respond: Callable[[Result], None]
    """Sends the response."""
    refused: Callable[[ErrorCode], Result]
    """Builds the response with an error code, for a request that gets no decision."""

    def refuse(self, error: ErrorCode) -> None:
        self.respond(self.refused(error))


class Answer(NamedTuple):
    """The answer to a request that was ``DEFERRED``. It is sent once the records of its decision are committed."""

    waiter: Waiter[Any]
    response: Any


class Deferred:
    """The response of a decision whose request is answered by an ``Answer`` of a later decision."""

    __slots__ = ()


DEFERRED: Final = Deferred()


class Decision(NamedTuple, Generic[Response, Record, Effect]):
    response: Response
    records: tuple[Record, ...] = ()
    effects: tuple[Effect, ...] = ()
    """Work that the broker does once the records are committed, such as writing markers."""
    changes: tuple[Any, ...] = ()
    """Changes of state that is not in the log, for ``apply`` of the shard that decided."""
    answers: tuple[Answer, ...] = ()
    """Answers to requests that were ``DEFERRED`` before."""
    wait_for: str | None = None
    """The id whose next record the request waits for: it is decided again when that was replayed. ``response`` is sent
    only if that takes too long."""
