"""One request: what to send, and what to call with its response or when its connection is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from semel.wire.apis import Api, ApiKey

Answered: TypeAlias = Callable[[Any, int, float], None]
Lost: TypeAlias = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request to send, and the callbacks for its outcome.

    ``build`` makes the message for a version that both sides support. Then exactly one of two is called:
    ``answered(response, version, now_ms)``, or ``lost(reason, now_ms)`` if the connection ended first. A lost request
    may have been served or not.
    """

    api_key: ApiKey
    build: Callable[[int], object]
    answered: Answered
    lost: Lost
    version_min: int | None = None
    version_max: int | None = None
    wants_answer: bool = True
    timeout_ms: int | None = None
    """How long to wait for the response; ``None``: request.timeout.ms."""


class InFlight(NamedTuple):
    """A call that was sent and is not answered yet."""

    correlation_id: int
    call: Call
    api: Api
    version: int
    deadline_ms: float
    sent_ms: float
