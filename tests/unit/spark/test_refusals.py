"""Checks before a start, as far as they need neither Spark nor a broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from semel.errors import ErrorCode, TimedOut
from semel.spark.refusals import Refused, check_twice

AWAY = TimedOut(ErrorCode.REQUEST_TIMED_OUT, "no answer")


def looking(*outcomes: Exception | None) -> tuple[Callable[[bool], None], list[bool]]:
    """A look that ends with these outcomes, one after the other, and the arguments with which it was called."""
    left, called = iter(outcomes), []

    def look(is_second: bool) -> None:
        called.append(is_second)
        outcome = next(left)
        if outcome is not None:
            raise outcome

    return look, called


def test_a_checkpoint_that_fits_at_any_look_is_not_refused() -> None:
    for outcomes in ([None], [Refused("at 1"), None], [Refused("at 1"), Refused("at 2"), None]):
        look, called = looking(*outcomes)
        check_twice(look)
        assert called == [number > 0 for number in range(len(outcomes))]


def test_what_is_refused_twice_with_the_same_words_is_refused() -> None:
    look, called = looking(Refused("at 1"), Refused("at 2"), Refused("at 2"))
    with pytest.raises(Refused, match=r"^at 2$"):
        check_twice(look)
    assert len(called) == 3


def test_a_checkpoint_that_is_refused_with_other_words_each_time_is_refused_in_the_end_with_the_reason() -> None:
    look, called = looking(*(Refused(f"at {number}") for number in range(3)))
    with pytest.raises(Refused, match=r"looked at 2 times in 0 s.*a driver of this pipeline still runs.* time: at 1$"):
        check_twice(look, patience_s=0)
    assert len(called) == 2


def test_a_second_look_that_gets_no_answer_leaves_the_first_refusal_and_says_so() -> None:
    """The brokers are away, or a transaction that has offsets of the group does not end."""
    look, _ = looking(Refused("at 1"), AWAY)
    with pytest.raises(Refused, match=r"^at 1\. That was read without waiting for open transactions;.*: no answer"):
        check_twice(look)
    look, _ = looking(AWAY)
    with pytest.raises(TimedOut, match="no answer"):
        check_twice(look)
