"""Waiting for another process to get somewhere: the one thing a test cannot be told about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from tools.patience import PATIENCE_S

T = TypeVar("T")

_INTERVAL_S: Final = 0.01


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, and fail it when it takes too long."""

    async def within_time() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario

    asyncio.run(within_time())


def eventually(expected: T, observe: Callable[[], T], timeout_s: float = PATIENCE_S) -> None:
    """Return once ``observe()`` is what is expected; when the time is over, fail with what it was instead."""
    deadline = time.monotonic() + timeout_s
    while (seen := observe()) != expected:
        assert time.monotonic() < deadline, f"{seen!r} after {timeout_s:.0f} s, not {expected!r}"
        time.sleep(_INTERVAL_S)


async def eventually_async(expected: T, observe: Callable[[], Awaitable[T]], timeout_s: float = PATIENCE_S) -> None:
    """The same where observing is awaited. An observation that takes longer than the time that is left ends it."""
    seen: object = "nothing"
    try:
        async with asyncio.timeout(timeout_s):
            while (seen := await observe()) != expected:
                await asyncio.sleep(_INTERVAL_S)
    except TimeoutError:
        raise AssertionError(f"{seen!r} after {timeout_s:.0f} s, not {expected!r}") from None
