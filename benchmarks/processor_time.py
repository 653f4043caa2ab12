"""What one call costs in processor time: the best of several rounds, so that it is the code's and not the machine's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_ROUNDS: Final = 7
_ROUND_S: Final = 0.15


def best_seconds(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    times = max(1, int(_ROUND_S / max(time.process_time() - began_s, 1e-6)))
    best_s = float("inf")
    for _ in range(_ROUNDS):
        began_s = time.process_time()
        for _ in range(times):
            work()
        best_s = min(best_s, (time.process_time() - began_s) / times)
    return best_s
