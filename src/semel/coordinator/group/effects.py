"""What group coordination asks the shell to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Waiter: TypeAlias = Callable[[Any], None]
"""The request that waits. The core keeps it and hands it back with the response; it never calls it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request that was ``DEFERRED``. Carried out once the decision's records are committed."""

    waiter: Waiter
    response: Any


class Deferred:
    """The response of a decision whose real answer comes as an ``Answer`` of a later one."""

    __slots__ = ()


DEFERRED: Final = Deferred()
