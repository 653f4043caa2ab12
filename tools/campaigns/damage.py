"""Five thousand damaged data directories, each started twice, with flipped, cut, zeroed, deleted and older files."""

from __future__ import annotations

import logging
import os
from typing import Any

from tests.simulation.damages import withstand

COUNT = 5_000
AT_ONCE = os.cpu_count() or 1
SOURCES = ("tests/simulation",)


def run(seed: int) -> dict[str, Any]:
    logger = logging.getLogger("semel")
    logger.propagate = False  # The handler that looks for tracebacks still receives the lines.
    logger.addHandler(logging.NullHandler())
    try:
        partitions = withstand(seed)
    except AssertionError as error:
        return {"passed": False, "error": str(error)}
    return {"passed": True, "partitions": partitions}
