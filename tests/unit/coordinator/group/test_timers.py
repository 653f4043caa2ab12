"""Deadlines of a shard: never early, in order, and cheap to move."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.coordinator.group.timers import Timers


def test_what_is_due_comes_in_the_order_of_its_deadline() -> None:
    timers: Timers[str] = Timers()
    timers.set("late", 30)
    timers.set("early", 10)
    timers.set("never", 100)
    assert list(timers.take_due(30)) == ["early", "late"]
    assert timers.next_due_ms() == 100


def test_a_deadline_that_was_moved_later_is_not_due_at_its_old_time() -> None:
    timers: Timers[str] = Timers()
    timers.set("session", 10)
    timers.set("session", 25)
    assert list(timers.take_due(10)) == []
    assert timers.next_due_ms() == 25
    assert list(timers.take_due(25)) == ["session"]


def test_a_deadline_that_was_moved_earlier_is_due_then_and_only_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("rebalance", 50)
    timers.set("rebalance", 20)
    assert list(timers.take_due(20)) == ["rebalance"]
    assert list(timers.take_due(50)) == []


def test_a_cancelled_deadline_never_comes() -> None:
    timers: Timers[str] = Timers()
    timers.set("member", 5)
    timers.cancel("member")
    timers.cancel("member")
    assert "member" not in timers
    assert list(timers.take_due(1000)) == []
    assert timers.next_due_ms() is None


def test_moving_a_deadline_many_times_leaves_one_entry() -> None:
    timers: Timers[str] = Timers()
    for moment in range(10_000):
        timers.set("heartbeat", moment)
    assert len(timers._queue) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20)), st.booleans()),
        max_size=40,
    )
)
def test_timers_agree_with_a_plain_dict(steps: list[tuple[str, int | None, bool]]) -> None:
    timers: Timers[str] = Timers()
    model: dict[str, int] = {}
    now_ms = 0
    for key, delay_ms, advances in steps:
        if delay_ms is None:
            timers.cancel(key)
            model.pop(key, None)
        else:
            timers.set(key, now_ms + delay_ms)
            model[key] = now_ms + delay_ms
        if advances:
            now_ms += 3
            due = sorted(name for name, due_ms in model.items() if due_ms <= now_ms)
            assert sorted(timers.take_due(now_ms)) == due
            for name in due:
                del model[name]
        if model:
            next_due_ms = timers.next_due_ms()
            assert next_due_ms is not None
            assert next_due_ms <= min(model.values())
