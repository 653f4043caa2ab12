"""Deadlines of a shard: never early, in order, and cheap to move."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.coordinator.deadlines import Deadlines


def test_what_is_due_comes_in_the_order_of_its_deadline() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("late", 30)
    deadlines.set("early", 10)
    deadlines.set("never", 100)
    assert list(deadlines.take_due(30)) == ["early", "late"]
    assert deadlines.next_ms() == 100


def test_a_deadline_that_was_moved_later_is_not_due_at_its_old_time() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("session", 10)
    deadlines.set("session", 25)
    assert list(deadlines.take_due(10)) == []
    assert deadlines.next_ms() == 25
    assert list(deadlines.take_due(25)) == ["session"]


def test_a_deadline_that_was_moved_earlier_is_due_then_and_only_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("rebalance", 50)
    deadlines.set("rebalance", 20)
    assert list(deadlines.take_due(20)) == ["rebalance"]
    assert list(deadlines.take_due(50)) == []


def test_a_deadline_that_is_set_unless_there_is_an_earlier_one_never_moves_later() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for due_ms in (30, 50, 20, 40):
        deadlines.set_earlier("group", due_ms)
    assert list(deadlines.take_due(19)) == []
    assert list(deadlines.take_due(20)) == ["group"]


def test_a_discarded_deadline_never_comes() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("member", 5)
    deadlines.discard("member")
    deadlines.discard("member")
    assert "member" not in deadlines
    assert list(deadlines.take_due(1000)) == []
    assert deadlines.next_ms() is None


def test_all_deadlines_move_with_the_clock() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("late", 40)
    deadlines.set("late", 50)
    deadlines.set("early", 20)
    deadlines.shift(-10)
    assert deadlines.next_ms() == 10
    assert list(deadlines.take_due(39)) == ["early"]
    deadlines.shift(100)
    assert list(deadlines.take_due(139)) == []
    assert list(deadlines.take_due(140)) == ["late"]


def test_moving_a_deadline_many_times_leaves_little_behind() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for moment in range(10_000):
        deadlines.set("heartbeat", moment)
    assert len(deadlines._heap) == 1
    for moment in range(10_000):
        deadlines.set("nearer", -moment)
    assert len(deadlines._heap) <= 100


def test_short_transactions_leave_nothing_behind() -> None:
    """Producers begin and end ten thousand of them long before the first would have timed out."""
    deadlines: Deadlines[str] = Deadlines()
    for number in range(10_000):
        deadlines.set("busy", 60_000 + number)
        deadlines.set(f"id-{number}", 60_000 + number)
        deadlines.discard("busy")
        deadlines.discard(f"id-{number}")
    assert len(deadlines._heap) <= 100
    assert len(deadlines._queued_ms) <= 100


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 20)), st.booleans()),
        max_size=200,
    )
)
def test_deadlines_agree_with_a_plain_dict(steps: list[tuple[str, int | None, bool]]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    model: dict[str, int] = {}
    now_ms = 0
    for key, delay_ms, advances in steps:
        if delay_ms is None:
            deadlines.discard(key)
            model.pop(key, None)
        else:
            deadlines.set(key, now_ms + delay_ms)
            model[key] = now_ms + delay_ms
        if advances:
            now_ms += 3
            due = [name for name, due_ms in model.items() if due_ms <= now_ms]
            taken = list(deadlines.take_due(now_ms))
            assert sorted(taken) == sorted(due)
            assert [model[name] for name in taken] == sorted(model[name] for name in due)
            for name in due:
                del model[name]
        if model:
            next_ms = deadlines.next_ms()
            assert next_ms is not None
            assert next_ms <= min(model.values())
        assert sorted(deadlines) == sorted(model)
        assert len(deadlines) == len(model)
