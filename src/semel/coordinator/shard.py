"""A shard: one partition of a coordinator's internal topic, as a replicated state machine. Kafka's CoordinatorShard.

``TransactionShard`` is a partition of ``__transaction_state``, ``GroupShard`` one of ``__consumer_offsets``. The broker
runs both in the same way (``broker/coordinators/shard_runtime.py``), through this protocol.

Besides these methods a shard has its handlers, one for each request that it serves. A handler returns a ``Decision``
and changes nothing. Only ``replay``, ``replay_marker`` and ``apply`` change a shard, and they decide nothing. What is
replayed is a function of the log; what is applied is lost when the shard is unloaded.
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
        """Return the key and the value of the record in the log. The value of a tombstone is ``None``."""

    def decode(self, key: bytes | None, value: bytes | None) -> Record | None:
        """Return the record; ``None`` if this version does not know its kind. Raises ``DecodeError`` if malformed."""

    def id_of(self, record: Record) -> str:
        """Return the id that the record belongs to: a transactional id, or a group id."""

    # -- what changes the shard

    def replay(self, record: Record, offset: int, producer: ProducerIdentity | None) -> None:
        """Change the state by a record that is at ``offset`` in the log.

        ``producer`` is the producer of the transaction that the record is part of, or ``None``. The same code runs
        right after an append and at loading, so both give the same state.
        """

    def replay_marker(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Change the state by a marker in the log: the producer's transaction was committed or aborted here."""

    def apply(self, change: Any) -> None:
        """Change the state that is not in the log, by one of a decision's ``changes``."""

    # -- what the shard decides without a request

    def loaded(self, moment: Moment) -> Decision[None, Record, Any]:
        """Decide what follows from the state once the whole log has been replayed."""

    def next_deadline_ms(self) -> float | None:
        """When to call ``time_out`` next, on the monotonic clock. ``None``: a periodic task of the broker calls it."""

    def time_out(self, moment: Moment) -> Iterable[Decision[Any, Record, Any]]:
        """Decide what follows from the deadlines that have passed.

        The caller carries out each decision before it takes the next one.
        """

    def unload(self) -> Sequence[Waiter[Any]]:
        """Stop using the shard. Returns the requests that it has deferred; the caller must answer them."""
