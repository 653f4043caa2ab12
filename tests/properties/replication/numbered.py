"""Values by their numbers: two states have most of their values in common, and numbers are compared at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, partial
from typing import Any, Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)
Method = TypeVar("Method", bound=Callable[..., Any])


class Numbered(Generic[Value]):
    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.values)
            self.values.append(value)
        return known


def remembered(function: Method) -> Method:
    """Its arguments are numbers, and its answer never changes: it is asked once for each."""
    vars(function)["is_remembered"] = True
    return function


def remember(asked: object) -> None:
    """From now on each of its remembered methods is called once with the same arguments."""
    for name, method in vars(type(asked)).items():
        if hasattr(method, "is_remembered"):
            setattr(asked, name, cache(partial(method, asked)))
