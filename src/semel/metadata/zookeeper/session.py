"""The interface to ZooKeeper that the store uses: a session with reads, one-time watches, atomic writes and its state.

It guarantees what ZooKeeper guarantees and no more. Reads of one session never go back in time, but until ``sync`` they
may be older than what others have written. A write that raises ``ConnectionLost`` may have been carried out, or may
still be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from semel.errors import SemelError


class ConnectionLost(SemelError):
    """No response came. The session may continue over another connection."""


class Refused(SemelError):
    """A write was not carried out: a version, or the existence of a node, was not as expected."""


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """There is no connection; the session may continue."""
    LOST = "lost"
    """The session has expired and its ephemeral nodes are gone. A new session is begun."""


class Node(NamedTuple):
    data: bytes
    version: int
    """The version of the data; 0 when the node is created."""
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
    """The expected version of the data; ``None``: any."""


@dataclass(frozen=True, slots=True)
class Remove:
    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """Changes nothing. The writes are refused if the node does not exist."""

    path: str


Write: TypeAlias = Create | SetData | Remove | Exists


class ZooKeeperSession(Protocol):
    @property
    def session_id(self) -> int:
        """The id of the present session; 0 before the first one."""

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> Node | None:
        """Return a node, or None if it does not exist. ``watch`` is called once, when it is next changed or created.

        Raises ConnectionLost, as every call does, or StorageError if ZooKeeper refuses to serve it, for instance for
        want of a right. A watch may be lost with its connection, and is not set by a call that raises an error.
        """

    async def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the names below a path; none if it does not exist. ``watch`` is called once, when they next change."""

    async def create(self, path: str, data: bytes) -> None:
        """Create a node. Raises Refused, for instance if it exists already."""

    async def write(self, writes: Sequence[Write]) -> int:
        """Carry out all writes or none. Returns the transaction's number: the ``mzxid`` of all nodes written.

        The first write must be a SetData. Raises Refused.
        """

    async def sync(self) -> None:
        """Return when reads see everything that was written before this call."""

    def on_state(self, changed: Callable[[SessionState], None]) -> None:
        """Call ``changed`` with every state from now on."""

    async def close(self) -> None:
        """End the session. Its ephemeral nodes are removed."""

    def abandon(self) -> None:
        """Stop without ending the session, as a process that dies does: the session expires some time later."""
