"""OffsetFetch of one group."""

from __future__ import annotations

from uuid import UUID

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.group.offsets.offset_results import FetchedOffset, FetchResult, PartitionToFetch
from semel.coordinator.group.records import OffsetCommit, OffsetKey
from tests.unit.coordinator.group.offsets.offset_log import OffsetLog

OLD, NEW = UUID(int=1), UUID(int=2)


def test_what_was_committed_is_told_in_the_order_of_the_request() -> None:
    log = OffsetLog()
    log.write(OffsetCommit(OffsetKey("payments", "orders", 0), 42, 7, "by hand", 1000))
    log.write(OffsetCommit(OffsetKey("payments", "orders", 1), 43, None, "", 1000))

    wanted = [PartitionToFetch("orders", 1), PartitionToFetch("refunds", 0), PartitionToFetch("orders", 0)]

    assert log.shard.fetch("payments", wanted) == Decision(
        FetchResult(
            offsets=(
                FetchedOffset("orders", 1, 43),
                FetchedOffset("refunds", 0, None, None, ""),
                FetchedOffset("orders", 0, 42, 7, "by hand"),
            )
        )
    )


def test_all_partitions_are_told_sorted() -> None:
    log = OffsetLog()
    for topic, partition in (("refunds", 10), ("orders", 2), ("refunds", 9), ("orders", 0)):
        log.commit(1, partition, topic=topic)
    log.commit(1, topic="orders", group_id="audit")

    fetched = log.shard.fetch("payments", None).response.offsets

    assert [(one.topic, one.partition) for one in fetched] == [
        ("orders", 0),
        ("orders", 2),
        ("refunds", 9),
        ("refunds", 10),
    ]


@pytest.mark.parametrize("group_id", ["nobody", ""])
def test_a_group_that_does_not_exist_has_read_nothing(group_id: str) -> None:
    shard = OffsetLog().shard

    assert shard.fetch(group_id, None) == Decision(FetchResult())
    assert shard.fetch(group_id, [PartitionToFetch("orders", 0)]) == Decision(
        FetchResult(offsets=(FetchedOffset("orders", 0),))
    )


@pytest.mark.parametrize(
    ("committed_for", "asked_for", "offset"),
    [(OLD, OLD, 42), (OLD, NEW, None), (None, NEW, 42), (OLD, None, 42), (None, None, 42)],
)
def test_an_offset_of_another_topic_of_the_same_name_is_absent(
    committed_for: UUID | None, asked_for: UUID | None, offset: int | None
) -> None:
    log = OffsetLog()
    log.write(OffsetCommit(OffsetKey("payments", "orders", 0), 42, None, "", 0, topic_id=committed_for))

    (fetched,) = log.shard.fetch("payments", [PartitionToFetch("orders", 0, asked_for)]).response.offsets

    assert fetched == FetchedOffset("orders", 0, offset)
