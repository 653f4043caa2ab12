"""A cache of the brokers' latest answers.

Pages ask brokers through it: however many pages are open, a question is sent once in the time for which its answer is
valid.
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
    __slots__ = ("asked_at", "good_until", "lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked_at: float | None = None
        self.good_until: float | None = None
        self.value: Any = None


class AnswerCache:
    """The most recently used answers by question. Threads with the same question wait for one request."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic, answers_max: int = _ANSWERS_MAX) -> None:
        self._now_s = now_s
        self._answers_max = answers_max
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()

    def get(self, question: Hashable, max_age_s: float, ask: Callable[[], T]) -> T:
        """Return the cached answer if it is at most ``max_age_s`` old, else call ``ask``. Its errors are not cached."""
        with self._lock:
            answer = self._answers.setdefault(question, _Answer())
            self._answers.move_to_end(question)
            self._drop_old()
        with answer.lock:
            if answer.asked_at is None or self._now_s() - answer.asked_at > max_age_s:
                answer.value = ask()
                answer.asked_at = self._now_s()
                answer.good_until = answer.asked_at + max_age_s
            value: T = answer.value
            return value

    def __len__(self) -> int:
        return len(self._answers)

    def has_fresh(self, question: Hashable, max_age_s: float) -> bool:
        """Whether there is an answer that is at most ``max_age_s`` old, so that ``get`` would send no request."""
        with self._lock:
            answer = self._answers.get(question)
        return answer is not None and answer.asked_at is not None and self._now_s() - answer.asked_at <= max_age_s

    def clear(self) -> None:
        """Drop all answers. Called after a change in the cluster, so that the next page shows it."""
        with self._lock:
            self._answers.clear()

    def _drop_old(self) -> None:
        # A page that follows a partition asks another question every second, so expired answers must be dropped.
        while len(self._answers) > 1:
            oldest = next(iter(self._answers.values()))
            is_old = oldest.good_until is not None and self._now_s() > oldest.good_until
            if not is_old and len(self._answers) <= self._answers_max:
                return
            self._answers.popitem(last=False)
