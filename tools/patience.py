"""How long tests, and the tools that they use, wait for what has to happen: one generous time for all of them.

A wait that is fulfilled ends at once, so a long patience costs nothing but the time until a real failure is told. A
short one makes a test fail because the machine is busy. ``SEMEL_PATIENCE_S`` changes it for a machine that is slower.

The two kinds of time in a test are kept apart: what has to happen is waited for with patience; what must not happen is
watched for a short while, and a busy machine makes that while show less, never something false.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = float(os.environ.get("SEMEL_PATIENCE_S", "120"))
PATIENCE_MS: Final = int(PATIENCE_S * 1000)

SPARK_PATIENCE_S: Final = 4 * PATIENCE_S
"""For what starts Spark, which takes half a minute on two processors that have nothing else to do."""

TEST_S_MAX: Final = 10 * PATIENCE_S
"""After so long a test is ended: later than any single wait in it."""

BEYOND_PATIENCE_MS: Final = 10 * PATIENCE_MS
"""For a time that a test must not wait for: what is answered within the patience was not answered by this time."""


def wait_until(
    condition: Callable[[], object], told: Callable[[], object] | str = "it did not happen", *, pause_s: float = 0.005
) -> None:
    """Return once the condition holds. If it does not within the patience, fail with what is told then."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {PATIENCE_S:.0f} s: {told if isinstance(told, str) else told()}")
        time.sleep(pause_s)
