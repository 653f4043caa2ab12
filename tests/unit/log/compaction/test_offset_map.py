"""The map from keys to offsets, against a dictionary."""

from __future__ import annotations

from random import Random

import pytest

from semel.log.compaction.offset_map import OffsetMap


def test_the_last_offset_of_a_key_is_the_one_that_counts() -> None:
    offsets = OffsetMap(10)
    offsets.put(b"a", 0)
    offsets.put(b"b", 1)
    offsets.put(b"a", 2)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.get(b"c"), offsets.entries) == (2, 1, None, 2)


def test_a_map_that_is_filled_to_its_bound_agrees_with_a_dictionary() -> None:
    random, expected, offsets = Random(1), {}, OffsetMap(3000)
    for offset in range(20_000):
        key = random.randbytes(random.randint(0, 3)) if len(expected) < 3000 else random.choice(list(expected)[:50])
        expected[key] = offset
        offsets.put(key, offset)
    assert len(expected) == offsets.entries == 3000
    assert {key: offsets.get(key) for key in expected} == expected
    assert offsets.get(b"none of them") is None


def test_offsets_may_be_as_large_as_offsets_get() -> None:
    offsets = OffsetMap(1)
    offsets.put(b"", 2**63 - 1)
    assert offsets.get(b"") == 2**63 - 1


def test_more_keys_than_the_map_was_made_for_are_a_bug_of_the_caller() -> None:
    offsets = OffsetMap(1)
    offsets.put(b"a", 0)
    with pytest.raises(AssertionError, match="for 1 keys"):
        offsets.put(b"b", 1)


@pytest.mark.parametrize("size_bytes", [1, 400, 2**20, 128 * 2**20])
def test_a_map_for_a_number_of_bytes_takes_no_more_than_that(size_bytes: int) -> None:
    entries = OffsetMap.entries_within(size_bytes)
    slots = len(OffsetMap(entries)._words) // 3
    assert entries <= slots * 3 // 4
    assert slots * 24 <= max(size_bytes, 16 * 24)
