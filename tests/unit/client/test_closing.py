"""Closing a client more than once at the same time: each call returns when it is closed, and none cuts it short."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import semel
import semel.blocking
from semel.client.group_session import GroupSession
from semel.client.machine.connection.promise import Promise
from semel.errors import TimedOut

SETTINGS = {"bootstrap_servers": "127.0.0.1:1", "max_block_ms": 200}
"""No broker is there, so close waits for max.block.ms, after which the record has failed."""


def test_a_second_task_that_closes_waits_for_the_first() -> None:
    async def scenario() -> None:
        producer = semel.Producer(**SETTINGS)  # type: ignore[arg-type]
        record = producer.send("nowhere", b"a")
        first, second = asyncio.create_task(producer.close()), asyncio.create_task(producer.close())
        await second
        assert first.done()
        assert isinstance(record.exception(), TimedOut)
        await asyncio.gather(first, return_exceptions=True)
        await producer.close()

    asyncio.run(scenario())


def test_a_second_task_waits_no_longer_than_its_timeout() -> None:
    async def scenario() -> None:
        producer = semel.Producer(**SETTINGS)  # type: ignore[arg-type]
        record = producer.send("nowhere", b"a")
        first = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        await producer.close(timeout_ms=0)
        assert not first.done()
        await asyncio.gather(first, return_exceptions=True)
        assert isinstance(record.exception(), TimedOut)

    asyncio.run(scenario())


def test_a_second_thread_that_closes_waits_for_the_first() -> None:
    producer = semel.blocking.Producer(**SETTINGS)  # type: ignore[arg-type]
    record = producer.send("nowhere", b"a")
    raised: list[BaseException] = []

    def close() -> None:
        try:
            producer.close()
        except BaseException as error:
            raised.append(error)

    closers = [threading.Thread(target=close) for _ in range(4)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    assert [type(error) for error in raised] == [TimedOut], raised
    with pytest.raises(TimedOut, match=r"max\.block\.ms"):
        record.result()


def test_a_second_thread_with_less_patience_does_not_end_the_first_ones_wait() -> None:
    settings = {**SETTINGS, "max_block_ms": 1_000}
    producer = semel.blocking.Producer(**settings)  # type: ignore[arg-type]
    record = producer.send("nowhere", b"a")
    raised: list[BaseException] = []

    def close() -> None:
        try:
            producer.close()
        except BaseException as error:
            raised.append(error)

    closer = threading.Thread(target=close)
    closer.start()
    while producer._session._closing is None:
        time.sleep(0.001)
    producer.close(timeout_ms=0)
    closer.join()
    assert [type(error) for error in raised] == [TimedOut], raised
    with pytest.raises(TimedOut, match=r"max\.block\.ms"):
        record.result()


class SlowToLeave(GroupSession):
    """A session whose group is left when the test lets it."""

    def __init__(self) -> None:
        self._callback_caller = None
        self._left: Promise[None] = Promise()
        self.began = 0
        self.has_begun, self.may_leave = threading.Event(), threading.Event()

    def begin_leaving(self, reason: str) -> Promise[None]:
        self.began += 1
        self.has_begun.set()
        return self._left

    def due(self) -> None:
        return None

    async def wait(self, expires_ms: float, until: Promise[None] | None = None) -> bool:
        await asyncio.to_thread(self.may_leave.wait)
        self._left.fulfil(None)
        return True


def test_a_second_task_that_closes_a_consumer_waits_for_the_first() -> None:
    async def scenario() -> None:
        consumer = semel.Consumer(bootstrap_servers="127.0.0.1:1", group_id="billing")
        await consumer.start()
        consumer._group_session = session = SlowToLeave()
        closing = [asyncio.create_task(consumer.close()) for _ in range(3)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(task.done() for task in closing)
        session.may_leave.set()
        await asyncio.gather(*closing)
        assert session.began == 1

    asyncio.run(scenario())


class ClosedByItsListener(SlowToLeave):
    """A session whose group is left when the listener, which runs in the task that closes, has closed as well."""

    def __init__(self, consumer: semel.Consumer[bytes, bytes]) -> None:
        super().__init__()
        self.may_leave.set()
        self._consumer = consumer

    async def wait(self, expires_ms: float, until: Promise[None] | None = None) -> bool:
        self._callback_caller = asyncio.current_task()
        await self._consumer.close(timeout_ms=5_000)
        self._callback_caller = None
        return await super().wait(expires_ms, until)


def test_a_listener_that_closes_a_consumer_in_the_middle_of_its_close_does_not_wait_for_itself() -> None:
    async def scenario() -> None:
        consumer = semel.Consumer(bootstrap_servers="127.0.0.1:1", group_id="billing")
        await consumer.start()
        consumer._group_session = session = ClosedByItsListener(consumer)
        begun_s = time.monotonic()
        await consumer.close()
        assert time.monotonic() - begun_s < 5
        assert session.began == 1

    asyncio.run(scenario())


def test_a_second_thread_that_closes_a_consumer_waits_for_the_first() -> None:
    consumer = semel.blocking.Consumer(bootstrap_servers="127.0.0.1:1", group_id="billing")
    consumer._group_session = session = SlowToLeave()
    raised: list[BaseException] = []

    def close(timeout_ms: float = 30_000) -> None:
        try:
            consumer.close(timeout_ms)
        except BaseException as error:
            raised.append(error)

    closers = [threading.Thread(target=close) for _ in range(3)]
    closers[0].start()
    session.has_begun.wait()
    close(timeout_ms=0)
    for closer in closers[1:]:
        closer.start()
    session.may_leave.set()
    for closer in closers:
        closer.join()
    assert (session.began, raised) == (1, [])
    assert not consumer._thread.is_running


class InterruptedByASignal(SlowToLeave):
    """A session that is left while a signal handler, which runs in the thread that it interrupts, closes as well."""

    def __init__(self, consumer: semel.blocking.Consumer[bytes, bytes]) -> None:
        super().__init__()
        self.may_leave.set()
        self._consumer = consumer

    def begin_leaving(self, reason: str) -> Promise[None]:
        self._consumer.close(timeout_ms=5_000)
        return super().begin_leaving(reason)


def test_a_signal_handler_that_closes_a_consumer_in_the_middle_of_its_close_does_not_wait_for_itself() -> None:
    consumer = semel.blocking.Consumer(bootstrap_servers="127.0.0.1:1", group_id="billing")
    consumer._group_session = session = InterruptedByASignal(consumer)
    begun_s = time.monotonic()
    consumer.close()
    assert time.monotonic() - begun_s < 5
    assert session.began == 1
    assert not consumer._thread.is_running
