from __future__ import annotations

from semel.console.views.generations import generation_blocks
from semel.inspection.group_trace import GroupEvent
from semel.inspection.times import time_text


def event(at_ms: int, what: str, generation: int | None) -> GroupEvent:
    return GroupEvent(time_text(at_ms), at_ms, what, generation)


def test_a_generation_lasts_until_the_next_until_the_group_is_empty_or_until_now() -> None:
    events = [
        event(1_000, "rebalanced", 1),
        event(3_000, "rebalanced", 2),
        event(4_000, "empty", 3),
        event(9_000, "rebalanced", 4),
    ]
    assert generation_blocks(events, now_ms=9_500) == [
        (1_000, 3_000, "good", "generation 1: 2.0 s"),
        (3_000, 4_000, "good", "generation 2: 1.0 s"),
        (9_000, 9_500, "good", "generation 4: 500 ms"),
    ]


def test_what_a_group_of_the_newer_protocol_writes_in_between_ends_no_epoch() -> None:
    events = [
        event(1_000, "group epoch", 1),
        event(1_001, "target", None),
        event(1_002, "assigned", 1),
        event(5_000, "group epoch", 2),
    ]
    assert [block[:2] for block in generation_blocks(events, now_ms=6_000)] == [(1_000, 5_000), (5_000, 6_000)]


def test_events_without_a_time_are_left_out_of_the_picture() -> None:
    assert generation_blocks([GroupEvent(None, 0, "rebalanced", 1)], now_ms=5) == []
