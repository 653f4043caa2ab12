"""The loop of the blocking classes ends with everything that ran in it."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any

import pytest

from semel.client.drivers.loop_thread import LoopThread
from semel.errors import StateError
from tools.patience import PATIENCE_S


def test_what_is_still_waited_for_is_cancelled_by_stop(caplog: pytest.LogCaptureFixture) -> None:
    thread = LoopThread("consumer")
    ended: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cancelled")

    gc.collect()  # What earlier tests left is not this one's.
    caplog.clear()
    waiting = thread.begin(wait_for_ever())
    thread.run(asyncio.sleep(0))
    thread.stop()

    with pytest.raises(CancelledError):
        waiting.result(timeout=PATIENCE_S)
    assert ended == ["cancelled"]
    gc.collect()
    assert "Task was destroyed" not in caplog.text
    with pytest.raises(StateError, match="the consumer is closed"):
        thread.begin(wait_for_ever())


class StoppedInBetween(LoopThread):
    """A thread that another one stops between the check that it runs and the use of its loop."""

    stopper: threading.Thread | None = None

    def _check(self) -> None:
        super()._check()
        if self.stopper is None:
            self.stopper = threading.Thread(target=self.stop)
            self.stopper.start()
            self.stopper.join(0.2)  # Where it cannot stop now, it does so a moment later.


def test_what_is_begun_while_another_thread_stops_it_is_refused_or_cancelled() -> None:
    thread = StoppedInBetween("consumer")
    with pytest.raises((StateError, CancelledError)):
        thread.begin(asyncio.sleep(PATIENCE_S)).result(timeout=PATIENCE_S)
    assert thread.stopper is not None
    thread.stopper.join()


def finishing(thread: LoopThread, last: Coroutine[Any, Any, None], raised: list[BaseException]) -> threading.Thread:
    def finish() -> None:
        try:
            thread.finish(last)
        except BaseException as error:
            raised.append(error)

    finisher = threading.Thread(target=finish)
    finisher.start()
    return finisher


def test_several_threads_may_finish_it_and_each_returns_when_it_is_done() -> None:
    thread = LoopThread("consumer")
    done: list[str] = []
    raised: list[BaseException] = []

    async def last() -> None:
        await asyncio.sleep(0)
        done.append("closed")

    for finisher in [finishing(thread, last(), raised) for _ in range(8)]:
        finisher.join()
    assert done
    assert raised == []
    assert not thread.is_running


def test_a_thread_that_has_finished_it_does_not_cut_another_one_short() -> None:
    """The other one may have more patience: a producer that waits for its records, beside a close with a timeout."""
    thread = LoopThread("producer")
    has_begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []
    raised: list[BaseException] = []

    async def patient() -> None:
        has_begun.set()
        while not may_end.is_set():
            await asyncio.sleep(0.001)
        done.append("sent")

    finisher = finishing(thread, patient(), raised)
    has_begun.wait()
    thread.finish(asyncio.sleep(0))
    assert (finisher.is_alive(), thread.is_running) == (True, True)
    may_end.set()
    finisher.join()
    assert (done, raised) == (["sent"], [])
    assert not thread.is_running


def test_a_callback_cannot_finish_its_own_thread_and_leaves_it_as_it_is() -> None:
    thread = LoopThread("consumer")

    async def callback() -> None:
        thread.finish(asyncio.sleep(0))

    with pytest.raises(StateError, match="a callback of this consumer cannot wait for it"):
        thread.run(callback())
    assert thread.is_running
    thread.run(asyncio.sleep(0))
    thread.stop()
