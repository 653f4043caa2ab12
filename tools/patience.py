"""The timeout with which tests and their tools wait for something that has to happen: one long timeout for all of them.

A wait ends as soon as its condition holds, so a long timeout costs nothing except when a test really fails. With a
short one a test would fail because the machine is busy. ``SEMEL_PATIENCE_S`` changes it for a slower machine.

A test has two kinds of time: for something that has to happen it waits with this timeout; for something that must not
happen it waits a short time. On a busy machine the short wait can miss a failure, but never report a false one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = float(os.environ.get("SEMEL_PATIENCE_S", "120"))
PATIENCE_MS: Final = int(PATIENCE_S * 1000)

SPARK_PATIENCE_S: Final = 4 * PATIENCE_S
"""The timeout for starting Spark, which takes half a minute on two idle processors."""

TEST_S_MAX: Final = 10 * PATIENCE_S
"""The timeout of a whole test, which is longer than any single wait in it."""

BEYOND_PATIENCE_MS: Final = 10 * PATIENCE_MS
"""For a timeout that a test must not reach: a response that comes within PATIENCE_S was not caused by this timeout."""


def wait_until(
    condition: Callable[[], object], told: Callable[[], object] | str = "it did not happen", *, pause_s: float = 0.005
) -> None:
    """Wait until the condition holds. Raises AssertionError with ``told`` if it does not within PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {PATIENCE_S:.0f} s: {told if isinstance(told, str) else told()}")
        time.sleep(pause_s)
