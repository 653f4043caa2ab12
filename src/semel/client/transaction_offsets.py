"""What a transaction has read: the consumer's positions are committed with it, and go back when it is aborted.

The law: what was read and not committed is read again, and nothing that was committed is. After an abort the consumer
is at its group's committed offsets. If partitions were lost after something of them was read, the transaction cannot be
committed: it has outputs of these records, and the offsets are not this member's to commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.errors import AbortableError, ErrorCode, StateError
from semel.types import TopicPartition


class Consumed(Protocol):
    """The interface of a consumer for transactions: ``ConsumerSession`` implements it."""

    def unsettled(self) -> dict[TopicPartition, OffsetAndMetadata]: ...

    def group_metadata(self) -> GroupMetadata: ...

    def settled(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...

    def rewind(self) -> None: ...

    @property
    def has_lost_partitions(self) -> bool: ...

    @property
    def is_auto_commit(self) -> bool: ...

    @property
    def deserializes(self) -> bool: ...


class AnyConsumer(Protocol):
    """``semel.Consumer``, or ``semel.blocking.Consumer``."""

    @property
    def _session(self) -> Consumed: ...


def session_of(consumer: AnyConsumer) -> Consumed:
    """Return the session of an application's consumer, which has the calls that only transactions use."""
    return consumer._session


class TransactionOffsets:
    """The part of one transaction in a consumer. Made when the transaction begins."""

    def __init__(self, consumer: Consumed) -> None:
        if consumer.is_auto_commit:
            raise StateError(
                "transaction: this consumer commits by itself, also what a transaction aborts; set "
                "enable_auto_commit=False"
            )
        self._consumer = consumer
        self._sent: dict[TopicPartition, OffsetAndMetadata] = {}
        self.group = consumer.group_metadata()

    def require_bytes(self) -> None:
        """Raise if the consumer has a deserializer: a dead letter must have the bytes that were read."""
        if self._consumer.deserializes:
            raise StateError(
                "transaction: this consumer has a deserializer, and a dead letter has the bytes that were read; "
                "deserialize within processing(record), where a mistake makes a dead letter, too"
            )

    def to_send(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit with the transaction. Raises ``AbortableError`` if it must not be committed."""
        if self._consumer.has_lost_partitions:
            raise AbortableError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"partitions of group {self.group.group_id!r} were assigned again after this consumer had read them; "
                "the transaction is aborted, and their present owner reads them again",
            )
        self._sent = self._consumer.unsettled()
        self.group = self._consumer.group_metadata()
        return self._sent

    def committed(self) -> None:
        self._consumer.settled(self._sent)

    def aborted(self) -> None:
        self._consumer.rewind()
