"""The state that ZooKeeper's servers agree on: a log of transactions, the resulting nodes, and the live sessions.

A transaction is agreed upon when it reaches the leader; each server applies it later, in the order of the log. Sessions
expire by the leader's clock. It checks them once in a tick, so they can expire late, but never early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.metadata.zookeeper.session import Create, Exists, Node, Refused, Remove, SetData, Write

TICK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Transaction:
    zxid: int
    changes: tuple[tuple[str, Node | None], ...]
    """The changed nodes by path, as they are after the transaction; ``None`` for a removed node."""


class Tree:
    """ZooKeeper's nodes by path, and the zxid of the last transaction that was applied to them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.zxid = 0

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        below = (known[len(prefix) :] for known in self.nodes if known.startswith(prefix))
        return sorted(name for name in below if "/" not in name)

    def carry_out(self, transaction: Transaction) -> None:
        for path, node in transaction.changes:
            if node is None:
                del self.nodes[path]
            else:
                self.nodes[path] = node
        self.zxid = transaction.zxid


@dataclass(slots=True)
class _Session:
    timeout_s: float
    heard_s: float
    ephemerals: set[str] = field(default_factory=set)


class Ensemble:
    """The state of the ensemble's leader.

    Each function in ``agreed`` is called with every transaction. ``now_s`` is the leader's clock; ``None`` for the
    loop's.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, tick_s: float = TICK_S, now_s: Callable[[], float] | None = None
    ) -> None:
        self._loop = loop
        self._now_s = now_s or loop.time
        self._tick_s = tick_s
        self._tree = Tree()
        self._sessions: dict[int, _Session] = {}
        self._last_session = 0
        self.agreed: list[Callable[[Transaction], None]] = []
        self._timer = loop.call_later(tick_s, self._tick)

    def close(self) -> None:
        self._timer.cancel()

    @property
    def zxid(self) -> int:
        return self._tree.zxid

    @property
    def tree(self) -> Tree:
        """The nodes after all transactions that were agreed upon."""
        return self._tree

    def open_session(self, timeout_s: float) -> int:
        self._last_session += 1
        self._sessions[self._last_session] = _Session(timeout_s, self._now_s())
        return self._last_session

    def is_alive(self, session_id: int) -> bool:
        return session_id in self._sessions

    def heard_from(self, session_id: int) -> None:
        if session_id in self._sessions:
            self._sessions[session_id].heard_s = self._now_s()

    def expire(self, session_id: int) -> None:
        """End a session that was closed or has timed out: one transaction removes all its ephemeral nodes."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.ephemerals:
            self._agree([(path, None) for path in sorted(session.ephemerals)])

    def write(self, session_id: int, writes: Sequence[Write]) -> int:
        """Agree on all of the writes or on none of them. Return the zxid. Raises ``Refused``."""
        if session_id not in self._sessions:
            raise Refused("the session has expired")
        zxid = self._tree.zxid + 1
        draft: dict[str, Node | None] = {}

        def now(path: str) -> Node | None:
            return draft[path] if path in draft else self._tree.nodes.get(path)

        for write in writes:
            node = now(write.path)
            match write:
                case Create(path, data, ephemeral):
                    folder = path.rpartition("/")[0]
                    if node is not None:
                        raise Refused(f"{path} exists")
                    above = now(folder) if folder else None
                    if folder and (above is None or above.owner):
                        raise Refused(f"{folder} does not exist, or is ephemeral")
                    draft[path] = Node(data, 0, zxid, session_id if ephemeral else 0)
                case SetData(path, data, version):
                    if node is None or version not in (None, node.version):
                        raise Refused(f"{path} is not at version {version}")
                    draft[path] = replace_node(node, data, zxid)
                case Remove(path, version):
                    if node is None or version not in (None, node.version):
                        raise Refused(f"{path} is not at version {version}")
                    if any(now(f"{path}/{name}") for name in self._tree.children(path)):
                        raise Refused(f"{path} has children")
                    draft[path] = None
                case Exists(path):
                    if node is None:
                        raise Refused(f"{path} does not exist")
        return self._agree(list(draft.items()))

    def _agree(self, changes: list[tuple[str, Node | None]]) -> int:
        zxid = self._tree.zxid + 1
        existing = [(path, node) for path, node in changes if node is not None or path in self._tree.nodes]
        for path, node in existing:
            before = self._tree.nodes.get(path)
            if before is not None and before.owner in self._sessions:
                self._sessions[before.owner].ephemerals.discard(path)
            if node is not None and node.owner in self._sessions:
                self._sessions[node.owner].ephemerals.add(path)
        transaction = Transaction(zxid, tuple(existing))
        self._tree.carry_out(transaction)
        for tell in self.agreed:
            tell(transaction)
        return zxid

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._tick_s, self._tick)
        now_s = self._now_s()
        for session_id, session in list(self._sessions.items()):
            if now_s - session.heard_s > session.timeout_s:
                self.expire(session_id)


def replace_node(node: Node, data: bytes, zxid: int) -> Node:
    return node._replace(data=data, version=node.version + 1, mzxid=zxid)
