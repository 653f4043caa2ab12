"""A decision: what a coordinator's handler returns. A response, the records that make it true, and what follows.

A handler reads state and changes nothing. The runtime appends the records to the coordinator's partition, replays them
into the shard with nothing in between, and sends the response and carries out the effects only once the records are
committed. A decision without records waits behind the uncommitted records it may rest on, so no client is told what a
failover could take back.

Some of what a coordinator knows is not worth a record: which members are joining right now, when a member was last
heard. Such changes travel in ``changes``. They are applied after the records were replayed, and not at all if the
append failed; a failover forgets them, and members say it all again.

A request need not be answered by its own decision. It may be ``DEFERRED``: the shard keeps its waiter and answers it
with a later decision. And a decision may ``wait_for`` an id: then the same request is decided again.
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
    """A request that waits for its answer. A shard keeps it and returns it with the response; it never calls it."""

    respond: Callable[[Result], None]
    refused: Callable[[ErrorCode], Result]
    """The response that carries this error: what is answered if there is no decision."""

    def refuse(self, error: ErrorCode) -> None:
        self.respond(self.refused(error))


class Answer(NamedTuple):
    """The answer to a request that was ``DEFERRED``. Sent once the decision's records are committed."""

    waiter: Waiter[Any]
    response: Any


class Deferred:
    """The response of a decision whose real answer comes as an ``Answer`` of a later one."""

    __slots__ = ()


DEFERRED: Final = Deferred()


class Decision(NamedTuple, Generic[Response, Record, Effect]):
    response: Response
    records: tuple[Record, ...] = ()
    effects: tuple[Effect, ...] = ()
    """What the broker has to do once the records are committed."""
    changes: tuple[Any, ...] = ()
    """For ``apply`` of the shard that decided."""
    answers: tuple[Answer, ...] = ()
    wait_for: str | None = None
    """Decide this request again once the id has moved on, that is, once its next record was replayed. The response is
    sent only if that takes too long."""
