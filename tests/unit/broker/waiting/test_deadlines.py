from __future__ import annotations

import asyncio
from collections.abc import Callable

from semel.broker.waiting.deadlines import BUCKET_MS, Deadlines
from semel.testing.virtual.loop import VirtualLoop


class Operation:
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
    operations = {timeout_ms: Operation(loop) for timeout_ms in (0, 1, 3, 4, 5, 100, 30_000)}
    for timeout_ms, operation in operations.items():
        deadlines.add(operation, timeout_ms)

    run(loop, 60)

    for timeout_ms, operation in operations.items():
        (expired_at_ms,) = operation.expired_at_ms
        assert timeout_ms <= expired_at_ms <= timeout_ms + BUCKET_MS + 0.001
    assert len(deadlines) == 0


def test_a_discarded_waiter_is_never_told() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    operation, other = Operation(loop), Operation(loop)
    ticket = deadlines.add(operation, 10)
    deadlines.add(other, 10)
    deadlines.discard(operation, ticket)

    run(loop, 1)

    assert operation.expired_at_ms == []
    assert len(other.expired_at_ms) == 1


def test_a_waiter_discarded_by_the_one_before_it_in_the_same_bucket_is_not_told() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    second = Operation(loop)
    first = Operation(loop, then=lambda: deadlines.discard(second, ticket))
    deadlines.add(first, 10)
    ticket = deadlines.add(second, 10)

    run(loop, 1)

    assert len(first.expired_at_ms) == 1
    assert second.expired_at_ms == []


def test_an_earlier_deadline_added_later_is_told_in_time() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    late, early = Operation(loop), Operation(loop)
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

    failing, other = Operation(loop, then=fail), Operation(loop)
    deadlines.add(failing, 10)
    deadlines.add(other, 10)

    run(loop, 1)

    assert len(other.expired_at_ms) == 1


def test_waiters_that_end_in_time_leave_nothing_behind() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)

    async def many() -> None:
        for _ in range(2000):
            operation = Operation(loop)
            ticket = deadlines.add(operation, 30_000)
            deadlines.discard(operation, ticket)
            await asyncio.sleep(0.01)

    loop.run_until_complete(many())
    assert len(deadlines) == 0
    run(loop, 40)
    assert deadlines._buckets == {}


def test_close_tells_nobody() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop)
    operation = Operation(loop)
    deadlines.add(operation, 10)
    deadlines.close()

    run(loop, 1)

    assert operation.expired_at_ms == []
