"""What the store needs of ZooKeeper: a session with reads, one-time watches, atomic writes, and news about itself.

The promises are ZooKeeper's and no more. Reads of one session never go back in time, but may be behind what others have
written until ``sync``. A write that raises ``ConnectionLost`` may have been carried out, or may still be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from semel.errors import SemelError


class ConnectionLost(SemelError):
    """No answer came. The session may live on, over another connection."""


class Refused(SemelError):
    """A write was not carried out: a version, or the existence of a node, was not as expected."""


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """There is no connection; the session may live on."""
    LOST = "lost"
    """The session has expired and its ephemeral nodes are gone. A new one is begun."""


class Node(NamedTuple):
    data: bytes
    version: int
    """Of the data; 0 when the node is made."""
    mzxid: int
    """The transaction that wrote the data. No two writes have the same."""
    owner: int
    """The session that an ephemeral node belongs to; 0 for others."""


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int | None = None
    """The one that is expected; ``None``: any."""


@dataclass(frozen=True, slots=True)
class Remove:
    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """Changes nothing, and is refused if the node is gone."""

    path: str


Write: TypeAlias = Create | SetData | Remove | Exists


class ZooKeeperSession(Protocol):
    @property
    def session_id(self) -> int:
        """Of the session that is going on; 0 before the first."""

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        """A node, or None where there is none. ``watch`` is called once, when it changes after this or comes to be.

        Raises ConnectionLost, as every call does. A watch may be lost with its connection.
        """

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        """The names below a path; none if it does not exist. ``watch`` is called once when one comes or goes."""

    async def create(self, path: str, data: bytes) -> None:
        """Make a node that may be there already: Refused."""

    async def write(self, writes: Sequence[Write]) -> int:
        """Carry out all or none; the transaction's number, which is the ``mzxid`` of all nodes written. Raises Refused.

        The first is a SetData.
        """

    async def sync(self) -> None:
        """Later reads see everything that was written before this call."""

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        """Call ``changed`` with every state from now on."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes are gone."""

    def abandon(self) -> None:
        """Be gone without a word, as a process that dies: the session expires some time later."""
