"""SASL from the broker's side: what a mechanism says to what a client sends.

A mechanism is the state of one exchange: bytes in, a ``Step`` out. It computes and waits for nothing. What would keep
an event loop for milliseconds (a password to be salted, keys to be fetched) is handed back as ``Costly``, for the
caller to run elsewhere.

The law: there is one way to ``Authenticated``, and after it, or after ``Refused``, an exchange goes no further. What a
client is told of a refusal does not depend on whether the user exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client has to say more."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client has proven that it is this user."""

    user: str
    token: bytes = field(default=b"", repr=False)
    """The last word of the mechanism, for the client."""
    expires_at_ms: float | None = None
    """Until when that holds, in wall-clock time, where the proof itself says so."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The proof failed. ``reason`` is for the broker's log; a client is told ``told``, or that it failed."""

    reason: str
    told: str | None = None


@dataclass(frozen=True, slots=True)
class Costly:
    """``run``, on a thread that may take its time, gives the step."""

    run: Callable[[], Challenge | Authenticated | Refused] = field(repr=False)


Step: TypeAlias = Challenge | Authenticated | Refused | Costly

OTHER_IDENTITY = Refused(
    "it asked for the rights of another user",
    "Authentication failed: Client requested an authorization id that is different from username",
)
"""CVE-2017-12610: the name whose password was proven is the only one that a client can have."""


class ServerMechanism(Protocol):
    """One exchange."""

    user: str | None
    """Who the client says that it is, once it has. That is not proven."""

    def step(self, token: bytes) -> Step:
        """What to say to what the client has sent. Raises nothing."""
