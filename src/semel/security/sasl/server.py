"""SASL on the broker's side: the interface of a mechanism, and the results of its steps.

A mechanism is the state of one exchange: it takes the client's bytes and returns a ``Step``. It does no I/O and does
not wait. Work that would block an event loop for milliseconds (salting a password, fetching keys) is returned as
``BlockingStep``, which the caller runs in another thread. A connection has its mechanism in an ``Exchange``.

The law: a mechanism returns ``Authenticated`` in one place only. After that, after ``Refused`` and after an exception
the exchange is over: ``Exchange`` refuses every further message, whatever the mechanism. The message of a refusal to
the client does not depend on whether the user exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client has to send another message; ``token`` is the challenge for it."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client has proven that it is this user."""

    user: str
    token: bytes = field(default=b"", repr=False)
    """The last message of the mechanism, which is sent to the client."""
    expires_at_ms: float | None = None
    """The wall-clock time at which the authentication expires, if the client's token sets one."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Authentication failed. ``reason`` is for the broker's log.

    The client receives ``client_message`` as the error message, or a general one if that is ``None``.
    """

    reason: str
    client_message: str | None = None


@dataclass(frozen=True, slots=True)
class BlockingStep:
    """The step has to be computed by ``run``, in another thread, because it takes long."""

    run: Callable[[], Result] = field(repr=False)


Result: TypeAlias = Challenge | Authenticated | Refused
Step: TypeAlias = Result | BlockingStep

OTHER_IDENTITY = Refused(
    "it asked for the rights of another user",
    "Authentication failed: Client requested an authorization id that is different from username",
)
"""The refusal of an authorization id that is not the authenticated user (CVE-2017-12610)."""

_NOT_AWAITED = Refused("a message after the last one")


class ServerMechanism(Protocol):
    """The broker's side of one exchange."""

    user: str | None
    """The user name that the client has sent, or ``None`` before that. It is not authenticated."""

    def step(self, token: bytes) -> Step:
        """Return the result of the client's next message, after a ``Challenge`` or as the first one. Raises nothing."""


class Exchange:
    """One exchange from its first message to its end, with any mechanism."""

    def __init__(self, mechanism: ServerMechanism) -> None:
        self._mechanism = mechanism
        self._awaits_message = True

    @property
    def user(self) -> str | None:
        """The user name that the client has sent, or ``None`` before that. It is not authenticated."""
        return self._mechanism.user

    def step(self, token: bytes) -> Step:
        """Return the result of the client's next message. It is refused unless it is the first one or answers a
        challenge."""
        if not self._awaits_message:
            return _NOT_AWAITED
        self._awaits_message = False  # Until the result is a challenge: an exception ends the exchange as well.
        step = self._mechanism.step(token)
        if isinstance(step, BlockingStep):
            return BlockingStep(lambda: self._taken(step.run()))
        return self._taken(step)

    def _taken(self, result: Result) -> Result:
        self._awaits_message = isinstance(result, Challenge)
        return result
