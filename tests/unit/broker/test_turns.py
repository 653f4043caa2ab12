"""Turns of the event loop: work in slices, and the watchdog that tells which turn was too long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from functools import partial
from typing import Any, cast

import pytest

from semel.broker.turns import ELEMENTS_PER_TURN_MAX, SHARE_MS, TURN_MS_MAX, Turns
from semel.testing.virtual.clock import ManualClock


class Timer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Keeps what is to be called later."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Any, tuple[Any, ...]]] = []
        self.timer = Timer()

    def call_later(self, seconds: float, call: Any, *arguments: Any) -> Timer:
        self.later.append((seconds, call, arguments))
        return self.timer

    def turn(self, clock: ManualClock, late_ms: int) -> None:
        seconds, call, arguments = self.later.pop()
        clock.advance(round(seconds * 1000) + late_ms)
        call(*arguments)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def turns(clock: ManualClock) -> Turns:
    return Turns(clock)


def test_the_longest_turn_is_how_late_the_timer_came_and_is_told_once(clock: ManualClock, turns: Turns) -> None:
    loop = Loop()
    turns.start(cast(asyncio.AbstractEventLoop, loop))
    for late_ms in (0, 180, 20):
        loop.turn(clock, late_ms)
    assert turns.longest_seconds() == pytest.approx(0.18)
    assert turns.too_long == 1
    assert turns.longest_seconds() == 0, "since it was last asked"
    loop.turn(clock, 20)
    assert turns.longest_seconds() == pytest.approx(0.02)
    assert turns.too_long == 1, f"up to {TURN_MS_MAX} ms are allowed"
    turns.stop()
    assert loop.timer.is_cancelled


def test_the_request_that_took_too_long_is_named_without_what_it_could_forge(
    turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        turns.too_long_for(75, "Metadata", 9, "10.0.0.1:555", "evil\n" + "x" * 30_000, 4711)
    (record,) = caplog.records
    first = record.getMessage()
    assert "75 ms" in first
    assert "Metadata v9 of 4711 bytes from 10.0.0.1:555" in first
    assert "\n" not in first
    assert len(first) < 400
    assert turns.longest_seconds() == pytest.approx(0.075)


def test_work_in_slices_gives_others_their_turn_after_each(turns: Turns) -> None:
    def work() -> Generator[None, None, str]:
        for _ in range(5):
            yield
        return "done"

    async def scenario() -> int:
        running = asyncio.ensure_future(turns.run(work(), elements=7))
        others = 0
        while not running.done():
            others += 1
            await asyncio.sleep(0)
        assert running.result() == "done"
        return others

    assert asyncio.run(scenario()) >= 5
    assert turns.most_elements == 7


def test_more_elements_in_a_turn_than_the_law_allows_are_a_bug(turns: Turns) -> None:
    """Simulations and fuzzing run into it, although no time passes there."""
    turns.worked(ELEMENTS_PER_TURN_MAX)
    turns.worked(5)
    assert turns.most_elements == ELEMENTS_PER_TURN_MAX
    with pytest.raises(AssertionError, match="elements in one turn"):
        turns.worked(ELEMENTS_PER_TURN_MAX + 1)


def test_all_that_stand_in_line_share_a_part_of_every_turn(clock: ManualClock) -> None:
    """However many clients have long work: what arrives meanwhile waits for one share, and not for all of them."""
    done: list[int] = []
    in_each_turn: list[int] = []

    async def scenario() -> None:
        turns = Turns(clock)

        def work(number: int, more: int) -> None:
            clock.advance(2)
            done.append(number)
            if more:
                turns.soon(lambda: work(number, more - 1))

        for number in range(20):
            turns.soon(partial(work, number, 2))
        while len(done) < 60:
            before = len(done)
            await asyncio.sleep(0)
            in_each_turn.append(len(done) - before)

    asyncio.run(scenario())
    assert max(in_each_turn) * 2 <= SHARE_MS + 2
    assert done == [*range(20)] * 3, "each in its turn"


def test_of_those_that_pause_one_goes_on_in_each_turn(clock: ManualClock) -> None:
    went_on: list[int] = []

    async def client(turns: Turns, number: int) -> None:
        for _ in range(3):
            await turns.pause()
            went_on.append(number)

    async def scenario() -> int:
        turns = Turns(clock)
        clients = [asyncio.ensure_future(client(turns, number)) for number in range(10)]
        most = 0
        while not all(task.done() for task in clients):
            before = len(went_on)
            await asyncio.sleep(0)
            most = max(most, len(went_on) - before)
        return most

    assert asyncio.run(scenario()) == 1
    assert went_on == [*range(10)] * 3


def test_work_that_nobody_waits_for_any_more_stops(clock: ManualClock) -> None:
    closed: list[bool] = []

    def work() -> Generator[None, None, None]:
        try:
            while True:
                yield
        finally:
            closed.append(True)

    async def scenario() -> None:
        turns = Turns(clock)
        others = asyncio.ensure_future(turns.pause())
        running = asyncio.ensure_future(turns.run(work(), elements=1))
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        others.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert running.cancelled()
        assert closed == [True]
        await turns.pause()

    asyncio.run(scenario())


def test_a_failure_in_line_concerns_only_the_one_who_failed(clock: ManualClock) -> None:
    def fails() -> Generator[None, None, None]:
        yield
        raise ValueError("bad")

    async def scenario() -> None:
        turns = Turns(clock)
        good, bad = asyncio.ensure_future(turns.pause()), asyncio.ensure_future(turns.run(fails(), elements=1))
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        turns.soon(lambda: 1 // 0)  # type: ignore[arg-type]
        last = asyncio.ensure_future(turns.pause())
        await asyncio.gather(good, last)
        with pytest.raises(ValueError, match="bad"):
            await bad

    asyncio.run(scenario())
