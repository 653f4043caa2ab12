"""A result that will be known later, for machines, which cannot await."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """A result that is settled once, with a value or an error. Callbacks run then, or at once if it is settled."""

    __slots__ = ("_listeners", "_value", "error", "settled")

    def __init__(self) -> None:
        self.settled = False
        self.error: Exception | None = None
        self._value: T | None = None
        self._listeners: list[Callable[[Promise[T]], None]] = []

    @property
    def value(self) -> T:
        """The value. Raises the error if the promise has failed."""
        assert self.settled, "the promise is not settled yet"
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]

    def fulfil(self, value: T) -> None:
        if not self.settled:
            self._value = value
            self._settle()

    def fail(self, error: Exception) -> None:
        if not self.settled:
            self.error = error
            self._settle()

    def then(self, listener: Callable[[Promise[T]], None]) -> None:
        if self.settled:
            listener(self)
        else:
            self._listeners.append(listener)

    def _settle(self) -> None:
        self.settled = True
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(self)


def fulfilled() -> Promise[None]:
    """Return a promise that is already fulfilled."""
    promise: Promise[None] = Promise()
    promise.fulfil(None)
    return promise
