"""Records that failed and whose futures were not looked at: ``flush`` and ``close`` raise for them.

The law: a program that forgets its futures cannot end as if everything had been written. A future is looked at when it
is awaited, or when its result or exception is requested; a failure that a program has handled there is not raised
again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from semel.errors import AbortableError, ErrorCode, KafkaError

T = TypeVar("T")

# How many futures are kept. If more fail and are not looked at, they are only counted.
_KEPT_MAX: Final = 1000


class DeliveryFuture(concurrent.futures.Future[T]):
    """A future for threads that knows whether it was looked at; asyncio's futures know it themselves."""

    was_looked_at = False

    def result(self, timeout: float | None = None) -> T:
        self.was_looked_at = True  # The waiting thread gets the outcome, whatever it is.
        try:
            return super().result(timeout)
        finally:
            self.was_looked_at = self.done()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.was_looked_at = True
        try:
            return super().exception(timeout)
        finally:
            self.was_looked_at = self.done()


class UnseenFailures:
    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}
        self._others = 0
        self._first_of_others: Exception | None = None

    def __bool__(self) -> bool:
        return bool(self._kept or self._others)

    def add(self, deliveries: Iterable[Any], error: Exception) -> None:
        """Add deliveries that have failed, or will: a bulk fails when all of its records are settled."""
        for delivery in deliveries:
            future = _future_of(delivery)
            if len(self._kept) >= _KEPT_MAX and not self._others:
                self._kept = {key: kept for key, kept in self._kept.items() if _is_unseen(kept)}
            if len(self._kept) < _KEPT_MAX:
                self._kept[id(future)] = future
            else:
                self._others += 1
                self._first_of_others = self._first_of_others or error
                mark_seen([future])

    def take(self) -> Exception | None:
        """Return the error to raise for failures that were not looked at by now. It is returned once."""
        unseen = [future for future in self._kept.values() if _is_unseen(future)]
        errors = [error for error in (future.exception() for future in unseen) if error is not None]
        count = len(errors) + self._others
        first = errors[0] if errors else self._first_of_others
        self._kept, self._others, self._first_of_others = {}, 0, None
        return None if first is None else _told(first, count)


def mark_seen(deliveries: Iterable[Any]) -> None:
    """Mark futures as looked at, so that asyncio does not complain about each of them."""
    for delivery in deliveries:
        future = _future_of(delivery)
        if isinstance(future, asyncio.Future) and _is_unseen(future):
            future.exception()


def _future_of(delivery: Any) -> Any:
    """Return the future inside a delivery of many records or a delivery that calls a hook."""
    while hasattr(delivery, "whole"):
        delivery = delivery.whole
    return delivery


def _is_unseen(future: Any) -> bool:
    if not future.done() or future.cancelled():
        return False
    if isinstance(future, DeliveryFuture):
        return not future.was_looked_at
    # The attribute by which asyncio logs that an exception was never retrieved.
    return bool(getattr(future, "_log_traceback", True))


def _told(first: Exception, count: int) -> Exception:
    sends = (
        "a send has failed, and its future was" if count == 1 else f"{count} sends have failed, and their futures were"
    )
    said = first.message if isinstance(first, KafkaError) else repr(first)
    text = f"{sends} not looked at{'' if count == 1 else '; the first'}: {said}"
    told = (
        type(first)(first.code, text)
        if isinstance(first, KafkaError)
        else AbortableError(ErrorCode.INVALID_RECORD, text)
    )
    told.__cause__ = first
    return told
