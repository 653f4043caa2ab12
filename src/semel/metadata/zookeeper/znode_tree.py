"""ZooKeeper's tree of nodes (znodes) as the store knows it: the metadata's values, and how a commit changes them. Pure.

A value of the metadata is the data of one node, and its version is the transaction id (zxid) that wrote it. A node that
only has nodes below it has ``FOLDER`` as its data. Once the store uses a tree, the tree is not changed any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, assert_never

from semel.metadata.store import Check, Delete, Operation, Put, VersionConflict, Versioned
from semel.metadata.zookeeper.session import Create, Exists, Node, Remove, SetData, Write

SEQUENCE: Final = "/sequence"
AUTHORS: Final = "/authors"
"""The folder with one node for each author, which has the mark of its last commit."""
NOT_METADATA: Final = frozenset({SEQUENCE, AUTHORS, "/zookeeper"})
FOLDER: Final = b"\0folder"
"""The data of a node that only has nodes below it. No value of the metadata looks like this."""


class _Stored(NamedTuple):
    value: bytes
    version: int
    owner: int

    @property
    def is_ephemeral(self) -> bool:
        return self.owner != 0


class ZnodeTree:
    def __init__(self) -> None:
        self._values: dict[str, _Stored] = {}
        self._nodes: set[str] = set()  # The paths of all nodes, also of those that only have nodes below them.

    def copy(self) -> ZnodeTree:
        other = ZnodeTree()
        other._values = dict(self._values)
        other._nodes = set(self._nodes)
        return other

    def get(self, path: str) -> Versioned | None:
        stored = self._values.get(path)
        return None if stored is None else Versioned(stored.value, stored.version)

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted({known[len(prefix) :].partition("/")[0] for known in self._values if known.startswith(prefix)})

    def changed_since(self, before: ZnodeTree) -> list[str]:
        """The paths whose values differ between two trees, sorted."""
        old, new = before._values, self._values
        paths = {*old, *new}
        return sorted(path for path in paths if old.get(path, _ABSENT).version != new.get(path, _ABSENT).version)

    # A commit

    def conflict(self, operations: Iterable[Operation]) -> VersionConflict | None:
        """Return the conflict of the first operation that expects another version than the tree's, or ``None``."""
        for operation in operations:
            stored = self._values.get(operation.path)
            version = None if stored is None else stored.version
            if version != operation.expected_version:
                return VersionConflict(operation.path, expected_version=operation.expected_version, version=version)
        return None

    def writes(self, operations: Sequence[Operation]) -> list[Write]:
        """Return ZooKeeper's writes for these operations, which must have no conflict with this tree."""
        writes: list[Write] = []
        made: set[str] = set()
        folders: set[str] = set()
        if any(isinstance(operation, Delete) for operation in operations):
            folders.update(folder for node in self._nodes for folder in _folders_above(node))
        for operation in operations:
            match operation:
                case Put(path, value):
                    for folder in _folders_above(path):
                        if folder not in self._nodes and folder not in made:
                            made.add(folder)
                            writes.append(Create(folder, FOLDER))
                    exists = path in self._nodes or path in made
                    if operation.ephemeral:
                        # Setting its data would keep the session that created it as its owner.
                        writes += [Remove(path)] if exists else []
                        writes.append(Create(path, value, ephemeral=True))
                    else:
                        assert value != FOLDER, f"{path}: this value says that there is none"
                        writes.append(SetData(path, value) if exists else Create(path, value))
                    made.add(path)
                case Delete(path):
                    writes.append(SetData(path, FOLDER) if path in folders else Remove(path))
                case Check(path, version):
                    # The version is that of the tree, and nothing was committed since; but the node's session may have
                    # ended.
                    writes += [] if version is None else [Exists(path)]
                case _:
                    assert_never(operation)
        return writes

    def after(self, operations: Sequence[Operation], writes: Sequence[Write], zxid: int, session_id: int) -> ZnodeTree:
        """Return the tree after these operations were carried out, by these writes."""
        tree = self.copy()
        for operation in operations:
            match operation:
                case Put(path, value):
                    tree._values[path] = _Stored(value, zxid, session_id if operation.ephemeral else 0)
                case Delete(path):
                    del tree._values[path]
                case Check():
                    pass
                case _:
                    assert_never(operation)
        for write in writes:
            if isinstance(write, Remove):
                tree._nodes.discard(write.path)
            elif not isinstance(write, Exists):
                tree._nodes.add(write.path)
        return tree

    def version_of(self, put: Put) -> int:
        """Return the version of a value that was put.

        If the value was overwritten before the outcome was known, this is a version that always conflicts.
        """
        stored = self._values.get(put.path)
        return stored.version if stored is not None and stored.value == put.value else -1

    # What was read from ZooKeeper

    def note(self, path: str, node: Node | None) -> None:
        """Enter a node that was read; ``None``: it does not exist."""
        if node is None:
            self._nodes.discard(path)
            self._values.pop(path, None)
            return
        self._nodes.add(path)
        self._nodes.update(_folders_above(path))
        if node.data == FOLDER and not node.owner:
            self._values.pop(path, None)
        else:
            self._values[path] = _Stored(node.data, node.mzxid, node.owner)

    def keep_ephemeral(self, folder: str, names: Iterable[str]) -> None:
        """Keep only these ephemeral values directly below ``folder``: the sessions of the others have ended."""
        there = {f"{folder.rstrip('/')}/{name}" for name in names}
        ephemeral = [
            path for path, stored in self._values.items() if stored.is_ephemeral and _folder_of(path) == folder
        ]
        for path in ephemeral:
            if path not in there:
                del self._values[path]
                self._nodes.discard(path)


def write_size_bytes(write: Write) -> int:
    """Return about how many bytes a write has on the wire."""
    return 60 + len(write.path) + (len(write.data) if isinstance(write, Create | SetData) else 0)


_ABSENT: Final = _Stored(b"", -1, 0)


def _folders_above(path: str) -> list[str]:
    """Return the folders above a path: ``/a`` and ``/a/b`` for ``/a/b/c``."""
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[: count + 1]) for count in range(len(names))]


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"
