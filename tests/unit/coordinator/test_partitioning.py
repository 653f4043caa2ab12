"""Every Kafka broker looks for an id in the same partition."""

from __future__ import annotations

import pytest

from semel.coordinator.partitioning import java_hash, partition_for
from semel.coordinator.transaction import records
from tests.memory import held_bytes


@pytest.mark.parametrize(
    ("text", "hashed", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("my-transactional-id", -959806496, 46),
        ("polygenelubricants", -(2**31), 0),
        ("grüße", 98768023, 23),
        ("日本語", 25921943, 43),
        ("\U0001f600x", 54959989, 39),
        ("group-1", 293427299, 49),
    ],
)
def test_the_hash_is_javas_and_the_lowest_number_has_no_opposite(text: str, hashed: int, partition: int) -> None:
    assert java_hash(text) == hashed
    assert partition_for(text, 50) == partition


def test_ids_of_32_kilobytes_are_not_kept() -> None:
    """A client may ask for the coordinator of as many ids as it likes; and a tombstone names its id in a key."""

    def ask() -> None:
        for number in range(50):
            text = f"{number}".ljust(32_000, "x")
            partition_for(text, 50)
            records.encode(records.Tombstone(text))

    assert held_bytes(ask) < 2**20
