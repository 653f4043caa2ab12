"""The numbers that make a batch unique: (producer id, producer epoch, sequence), partition by partition.

The law: a batch gets its numbers when it is first drained, and keeps them for as long as a copy of it may be in the
log or on its way there. Sending it again is then always safe: the broker recognises it. Only a batch of which every
copy was answered with a refusal, so that none is in a log, may get new numbers, under a new epoch.

Sequences of one epoch have no gaps in the log. So when a numbered batch fails, what comes after it in this epoch cannot
be written unless the failed one was after all; the partition is ``unresolved``, and nothing new is numbered until every
batch that already was is settled. Then either all sequences turn out to be acknowledged, or the epoch is bumped
(KIP-360) and counting begins at 0 again.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from semel.types import INT32_MAX, TopicPartition

TRANSACTIONS_V1: Final = 1
TRANSACTIONS_V2: Final = 2
"""The feature level ``transaction.version`` from which every transaction has an epoch of its own (KIP-890)."""


class Identity(NamedTuple):
    """A producer id and its epoch. With a new epoch, a broker treats the producer as a new one."""

    producer_id: int
    producer_epoch: int


class Numbers(NamedTuple):
    """The numbers by which a broker recognises a batch."""

    identity: Identity
    base_sequence: int


class Numbering(Protocol):
    """The source of a producer's identity: the idempotent one, or the transactional one."""

    @property
    def transaction_version(self) -> int | None:
        """The version of this producer's transactions, 1 or 2; ``None`` if it has none."""

    def identity(self) -> Identity | None:
        """Return the identity to write with now; ``None`` while no batch may be numbered."""

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether batches of this partition may be sent now."""

    def sent(self) -> None:
        """Note that a batch is sent."""

    def failed(self, error: Exception, *, was_numbered: bool) -> None:
        """Note that a batch has failed for good."""

    def unresolved(self, topic_partition: TopicPartition, reason: str) -> None:
        """Handle that the sequences of this partition cannot go on under the current identity."""


def advanced(sequence: int, count: int) -> int:
    """Return the sequence this many records later; after 2**31 - 1 comes 0."""
    return (sequence + count) & INT32_MAX


class PartitionSequences:
    """The sequences that one producer has given to batches of one partition, and those known to be in the log."""

    __slots__ = ("acknowledged_end", "identity", "is_known", "next_sequence", "unresolved")

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.next_sequence = 0
        self.acknowledged_end = 0
        """The sequence after the last one that a broker has acknowledged."""
        self.is_known = False
        """Whether a broker has acknowledged anything under this identity."""
        self.unresolved: str | None = None
        """Why no new batch may be numbered: what happened to a numbered one. ``None`` if nothing did."""

    @property
    def is_complete(self) -> bool:
        """Whether everything that was numbered is known to be in the log."""
        return self.acknowledged_end == self.next_sequence

    def adopt(self, identity: Identity) -> None:
        """Begin at 0 under another identity. Allowed only when nothing of the old one is unsettled."""
        self.identity = identity
        self.next_sequence = self.acknowledged_end = 0
        self.is_known = False
        self.unresolved = None

    def take(self, record_count: int) -> Numbers:
        assert self.identity is not None
        assert self.unresolved is None
        numbers = Numbers(self.identity, self.next_sequence)
        self.next_sequence = advanced(self.next_sequence, record_count)
        return numbers

    def acknowledged(self, numbers: Numbers, record_count: int) -> None:
        # An acknowledgement proves everything before it, too; a late one of an old epoch proves nothing about this one.
        if numbers.identity == self.identity:
            self.is_known = True
            self.acknowledged_end = advanced(numbers.base_sequence, record_count)
