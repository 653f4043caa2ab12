from __future__ import annotations

import asyncio
from collections.abc import Callable

from semel.broker.waiting.deadlines import BUCKET_MS, Deadlines
from semel.testing.virtual.loop import VirtualLoop


class Waiting:
    def __init__(self, loop: asyncio.AbstractEventLoop, then: Callable[[], None] = lambda: None) -> None:
        self._loop = loop
        self._then = then
        self.expired_at_ms: list[float] = []

    def expired(self) -> None:
        self.expired_at_ms.append(self._loop.time() * 1000)
        self._then()


def run(loop: VirtualLoop, seconds: float) -> None:
    loop.run_until_complete(asyncio.sleep(seconds))


def test_a_waiter_expires_not_before_its_deadline_and_at_most_a_bucket_after_it() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    waiters = {timeout_ms: Waiting(loop) for timeout_ms in (0, 1, 3, 4, 5, 100, 30_000)}
    for timeout_ms, waiter in waiters.items():
        deadlines.add(waiter, timeout_ms)

    run(loop, 60)

    for timeout_ms, waiter in waiters.items():
        (expired_at_ms,) = waiter.expired_at_ms
        assert timeout_ms <= expired_at_ms <= timeout_ms + BUCKET_MS + 0.001
    assert len(deadlines) == 0


def test_a_discarded_waiter_is_never_told() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    waiter, other = Waiting(loop), Waiting(loop)
    ticket = deadlines.add(waiter, 10)
    deadlines.add(other, 10)
    deadlines.discard(waiter, ticket)

    run(loop, 1)

    assert waiter.expired_at_ms == []
    assert len(other.expired_at_ms) == 1


def test_a_waiter_discarded_by_the_one_before_it_in_the_same_bucket_is_not_told() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    second = Waiting(loop)
    first = Waiting(loop, then=lambda: deadlines.discard(second, ticket))
    deadlines.add(first, 10)
    ticket = deadlines.add(second, 10)

    run(loop, 1)

    assert len(first.expired_at_ms) == 1
    assert second.expired_at_ms == []


def test_an_earlier_deadline_added_later_is_told_in_time() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    late, early = Waiting(loop), Waiting(loop)
    deadlines.add(late, 5000)
    deadlines.add(early, 20)

    run(loop, 0.1)

    assert len(early.expired_at_ms) == 1
    assert late.expired_at_ms == []


def test_a_waiter_that_fails_does_not_keep_the_others_from_being_told() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)

    def fail() -> None:
        raise RuntimeError("planted")

    failing, other = Waiting(loop, then=fail), Waiting(loop)
    deadlines.add(failing, 10)
    deadlines.add(other, 10)

    run(loop, 1)

    assert len(other.expired_at_ms) == 1


def test_waiters_that_end_in_time_leave_nothing_behind() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)

    async def many() -> None:
        for _ in range(2000):
            waiter = Waiting(loop)
            ticket = deadlines.add(waiter, 30_000)
            deadlines.discard(waiter, ticket)
            await asyncio.sleep(0.01)

    loop.run_until_complete(many())
    assert len(deadlines) == 0
    run(loop, 40)
    assert deadlines._buckets == {}


def test_close_tells_nobody() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    waiter = Waiting(loop)
    deadlines.add(waiter, 10)
    deadlines.close()

    run(loop, 1)

    assert waiter.expired_at_ms == []
