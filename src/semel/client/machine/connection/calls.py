"""One request, from the wish to send it to its answer or the news that there will be none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from semel.wire.apis import Api, ApiKey

Answered: TypeAlias = Callable[[Any, int, float], None]
Lost: TypeAlias = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What to ask, and what to call with the answer.

    ``build`` makes the message for the version that both sides speak. Then exactly one of two is called:
    ``answered(response, version, now_ms)``, or ``lost(reason, now_ms)`` when the connection ended first: then the
    request may have been served or not.
    """

    api_key: ApiKey
    build: Callable[[int], object]
    answered: Answered
    lost: Lost
    version_min: int | None = None
    version_max: int | None = None
    wants_answer: bool = True
    timeout_ms: int | None = None
    """How long it may go unanswered, if that is not request.timeout.ms."""


class InFlight(NamedTuple):
    """A call that was sent."""

    correlation_id: int
    call: Call
    api: Api
    version: int
    deadline_ms: float
    sent_ms: float
