"""Waiting for another process to get somewhere: the one thing a test cannot be told about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(expected: T, observe: Callable[[], T], timeout_s: float = 10.0) -> None:
    """Return once ``observe()`` is what is expected; when the time is over, fail with what it was instead."""
    deadline = time.monotonic() + timeout_s
    while (seen := observe()) != expected:
        assert time.monotonic() < deadline, f"{seen!r} after {timeout_s:.0f} s, not {expected!r}"
        time.sleep(0.01)
