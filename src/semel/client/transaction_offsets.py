"""What a transaction has consumed: the consumer's positions go with the commit, and back with an abort.

The law: whatever was read and not committed is read again, and nothing that was committed is. After an abort the
consumer stands where its group's committed offsets say. Where partitions were taken away after something was read of
them, the transaction cannot be committed: what was read is in it, and the offsets are not this member's to commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.errors import AbortableError, ErrorCode, StateError
from semel.types import TopicPartition


class Consumed(Protocol):
    """A consumer as a transaction sees it: ``ConsumerSession`` is one."""

    def unsettled(self) -> dict[TopicPartition, OffsetAndMetadata]: ...

    def group_metadata(self) -> GroupMetadata: ...

    def settled(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...

    def rewind(self) -> None: ...

    @property
    def has_lost_work(self) -> bool: ...

    @property
    def commits_by_itself(self) -> bool: ...

    @property
    def deserializes(self) -> bool: ...


class AnyConsumer(Protocol):
    """``semel.Consumer``, or ``semel.blocking.Consumer``."""

    @property
    def _session(self) -> Consumed: ...


def session_of(consumer: AnyConsumer) -> Consumed:
    """What an application's consumer has for transactions, and not for applications."""
    return consumer._session


class TransactionOffsets:
    """One transaction's share in a consumer. Made when the transaction begins."""

    def __init__(self, consumer: Consumed) -> None:
        if consumer.commits_by_itself:
            raise StateError(
                "transaction: this consumer commits by itself, also what a transaction aborts; set "
                "enable_auto_commit=False"
            )
        self._consumer = consumer
        self._sent: dict[TopicPartition, OffsetAndMetadata] = {}
        self.group = consumer.group_metadata()

    def require_bytes(self) -> None:
        """For dead letters: a record that a deserializer has changed cannot be sent on as it was."""
        if self._consumer.deserializes:
            raise StateError(
                "transaction: this consumer has a deserializer, and a dead letter has the bytes that were read; "
                "deserialize within processing(record), where a mistake makes a dead letter, too"
            )

    def to_send(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit with the transaction. Raises ``AbortableError`` if it must not be committed."""
        if self._consumer.has_lost_work:
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
