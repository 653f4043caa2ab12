"""A task's process, made ready to be used again soon.

PySpark collects garbage after every task. With all that is imported here this takes 40 ms, longer than a small task,
and the next task waits for it. What is there after the imports is never garbage, so it is set aside, once.
"""

from __future__ import annotations

import gc
import os

_settled_pid: int | None = None


def settle() -> None:
    """Call it in a task, before its work; from the second time on it does nothing."""
    global _settled_pid
    if _settled_pid != os.getpid():
        _settled_pid = os.getpid()
        gc.freeze()
