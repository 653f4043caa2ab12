"""The loop of the blocking classes ends with everything that ran in it."""

from __future__ import annotations

import asyncio
import gc
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
