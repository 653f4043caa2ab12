"""What a coordinator's handler decides: an answer, records that make it true, and what is to be done about it.

A handler reads state and changes nothing. The runtime appends the records to the coordinator's partition, replays them
into the shard with nothing in between, and sends the answer and carries out the effects only once the records are
committed. A decision without records waits behind the uncommitted records it may rest on, so no client is told what a
failover could take back.

Some of what a coordinator knows is not worth a record: who is joining right now, when a member was last heard. Such
changes travel in ``changes``. They are applied after the records were replayed, and not at all if the append failed;
a failover forgets them, and members say it all again.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

Response = TypeVar("Response", covariant=True)
Record = TypeVar("Record")
Effect = TypeVar("Effect")


class Decision(NamedTuple, Generic[Response, Record, Effect]):
    response: Response
    records: tuple[Record, ...] = ()
    effects: tuple[Effect, ...] = ()
    changes: tuple[Any, ...] = ()
    """For ``apply`` of the shard that decided."""
