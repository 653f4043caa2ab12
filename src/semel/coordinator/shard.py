"""A shard: one partition of a coordinator's internal topic, as a replicated state machine. Kafka's CoordinatorShard.

``TransactionShard`` is a partition of ``__transaction_state``, ``GroupShard`` one of ``__consumer_offsets``. The broker
runs both in the same way (``broker/coordinators/shard_runtime.py``) and knows no more of them than stands here.

Besides these methods a shard has its handlers, one for each request that it serves. A handler returns a ``Decision``
and changes nothing. Only ``replay``, ``replay_marker`` and ``apply`` change a shard, and they decide nothing. What is
replayed is a function of the log; what is applied is forgotten with the shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from semel.coordinator.decision import Decision, Waiter
from semel.coordinator.moment import Moment
from semel.types import ProducerIdentity

Record = TypeVar("Record")


class Shard(Protocol[Record]):
    # -- the log

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """The key and the value that stand in the log for the record. A tombstone has no value."""

    def decode(self, key: bytes | None, value: bytes | None) -> Record | None:
        """The record; ``None`` for one that this version does not know. Raises ``DecodeError`` if it is malformed."""

    def id_of(self, record: Record) -> str:
        """The id that the record is about: a transactional id, or a group id."""

    # -- what changes the shard

    def replay(self, record: Record, offset: int, producer: ProducerIdentity | None) -> None:
        """Remember a record that stands at ``offset``. ``producer``: whose transaction it is a part of.

        The same right after the append as at loading, so both give the same shard.
        """

    def replay_marker(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """The transaction of this producer has ended, in this partition."""

    def apply(self, change: Any) -> None:
        """Remember something that is not in the log: one of a decision's ``changes``."""

    # -- what the shard decides without a request

    def loaded(self, moment: Moment) -> Decision[None, Record, Any]:
        """What follows once the whole log was replayed."""

    def next_deadline_ms(self) -> float | None:
        """When to call ``time_out`` next, on the monotonic clock. ``None``: a periodic task of the broker does it."""

    def time_out(self, moment: Moment) -> Iterable[Decision[Any, Record, Any]]:
        """What follows from the deadlines that have passed. Each decision is carried out before the next is taken."""

    def unload(self) -> Sequence[Waiter[Any]]:
        """The shard is given up. Returns the requests that it has deferred; the caller must answer them."""
