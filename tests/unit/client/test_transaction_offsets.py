"""What a transaction does with its consumer: sends how far it has read, and takes it back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from semel.client.transaction_offsets import TransactionOffsets
from semel.client.values import GroupMetadata, OffsetAndMetadata
from semel.errors import AbortableError, StateError
from semel.types import TopicPartition

ORDERS = TopicPartition("orders", 0)


class FakeConsumer:
    def __init__(self) -> None:
        self.offset = 5
        self.generation = 1
        self.has_lost_partitions = False
        self.is_auto_commit = False
        self.deserializes = False
        self.calls: list[object] = []

    def unsettled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {ORDERS: OffsetAndMetadata(self.offset)}

    def group_metadata(self) -> GroupMetadata:
        return GroupMetadata("billing", self.generation, "member-1")

    def settled(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.calls.append(dict(offsets))

    def rewind(self) -> None:
        self.calls.append("rewind")


def test_what_is_sent_is_how_far_was_read_at_the_end_of_the_transaction() -> None:
    consumer = FakeConsumer()
    consumed = TransactionOffsets(consumer)
    consumer.offset, consumer.generation = 9, 2
    assert consumed.to_send() == {ORDERS: OffsetAndMetadata(9)}
    assert consumed.group.generation_id == 2
    consumed.committed()
    assert consumer.calls == [{ORDERS: OffsetAndMetadata(9)}]


def test_an_abort_takes_the_consumer_back() -> None:
    consumer = FakeConsumer()
    TransactionOffsets(consumer).aborted()
    assert consumer.calls == ["rewind"]


def test_a_transaction_that_lost_partitions_on_the_way_must_not_be_committed() -> None:
    """Scenario 54: what was read of them is in the output, and their offsets are another member's now."""
    consumer = FakeConsumer()
    consumed = TransactionOffsets(consumer)
    consumer.has_lost_partitions = True
    with pytest.raises(AbortableError, match="assigned again"):
        consumed.to_send()


def test_a_consumer_that_commits_by_itself_is_refused() -> None:
    consumer = FakeConsumer()
    consumer.is_auto_commit = True
    with pytest.raises(StateError, match="enable_auto_commit=False"):
        TransactionOffsets(consumer)
