"""What a piece of work costs, counted in lines of Python and not timed: a loop shows, and a busy machine does not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_executed(work: Callable[[], object], *, within: str) -> int:
    """How many lines of the package ``within`` the work runs through.

    Only of that package: the garbage collector may finalise something else's at any moment.
    """
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if within not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines
