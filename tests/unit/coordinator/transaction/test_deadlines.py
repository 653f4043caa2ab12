"""When open transactions time out, in order, at a cost that does not depend on how many ids there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.coordinator.transaction.deadlines import Deadlines

KEYS = st.sampled_from("abcdef")
STEPS = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 20)))


@given(STEPS, st.integers(0, 21))
def test_it_knows_what_is_due_like_a_sorted_dictionary(steps: list[tuple[str, int | None]], now_ms: int) -> None:
    deadlines, expected = Deadlines(), dict[str, int]()
    for key, deadline_ms in steps:
        if deadline_ms is None:
            deadlines.discard(key)
            expected.pop(key, None)
        else:
            deadlines.set(key, deadline_ms)
            expected[key] = deadline_ms
    due = sorted((deadline_ms, key) for key, deadline_ms in expected.items() if deadline_ms < now_ms)
    for _ in range(2):
        assert deadlines.before(now_ms) == [key for _, key in due]
    assert sorted(deadlines) == sorted(expected)
    assert len(deadlines) == len(expected)


def test_short_transactions_leave_nothing_behind() -> None:
    """A producer begins and ends ten thousand of them long before the first would have timed out."""
    deadlines = Deadlines()
    for number in range(10_000):
        deadlines.set("busy", 60_000 + number)
        deadlines.discard("busy")
    assert len(deadlines._heap) <= 100
