"""The loop of the blocking classes ends with everything that ran in it."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import CancelledError

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


def test_only_one_thread_finishes_it() -> None:
    thread = LoopThread("consumer")
    done: list[str] = []

    async def last() -> None:
        await asyncio.sleep(0)
        done.append("closed")

    closers = [threading.Thread(target=thread.finish, args=(last(),)) for _ in range(8)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    assert done
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
