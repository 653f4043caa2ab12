"""What brokers said a moment ago.

Pages ask through this: however many are open, a question is asked once in the time for which its answer is good.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_ANSWERS_MAX: Final = 2_000


class _Answer:
    __slots__ = ("asked_at", "lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked_at: float | None = None
        self.value: Any = None


class Answers:
    """Answers by question, the ones used last; threads that want the same one wait for one request."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()

    def get(self, question: Hashable, max_age_s: float, ask: Callable[[], T]) -> T:
        """An answer that is at most so old. An error is raised and not kept."""
        with self._lock:
            answer = self._answers.setdefault(question, _Answer())
            self._answers.move_to_end(question)
            if len(self._answers) > _ANSWERS_MAX:
                self._answers.popitem(last=False)
        with answer.lock:
            if answer.asked_at is None or self._now_s() - answer.asked_at > max_age_s:
                answer.value = ask()
                answer.asked_at = self._now_s()
            value: T = answer.value
            return value

    def forget(self) -> None:
        """After a change: the next page shows what it did."""
        with self._lock:
            self._answers.clear()
