"""The directory tree of a virtual disk: the names that programs see, the durable names, and the pending changes.

A change of names (create, remove, rename) is atomic, and is pending until a folder that it touches is synced. A power
cut keeps or undoes each pending change, with one law: a change is kept only if its folder is kept, and all earlier
changes of the same names. File systems with an ordered journal promise more; POSIX does not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from random import Random
from typing import NamedTuple, TypeAlias

from semel.testing.virtual.page_cache import CachedFile, Unsynced


class Folder:
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = CachedFile | Folder


class Entry(NamedTuple):
    """One name in one folder, and the node that it now refers to; ``None`` if the name was removed."""

    folder: Folder
    name: str
    node: Node | None


Change: TypeAlias = tuple[Entry, ...]


class Folders:
    """A tree of folders and files, with the pending changes that no sync has made durable yet."""

    def __init__(self) -> None:
        self.root = Folder()
        self._pending: list[Change] = []

    def find(self, path: str) -> Node | None:
        """Return the node at a path, or ``None``. Raises ``NotADirectoryError`` if a parent of the path is a file."""
        node: Node | None = self.root
        for name in _parts(path):
            if not isinstance(node, Folder):
                raise _error(errno.ENOTDIR, path)
            node = node.names.get(name)
            if node is None:
                return None
        return node

    def folder(self, path: str) -> Folder:
        node = self.find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, Folder):
            raise _error(errno.ENOTDIR, path)
        return node

    def place(self, path: str) -> tuple[Folder, str]:
        """Return the folder that contains the path, and the path's name in it. The folder must exist."""
        parts = _parts(path)
        if not parts:
            raise _error(errno.EINVAL, path)
        return self.folder("/" + "/".join(parts[:-1])), parts[-1]

    def set(self, *change: Entry) -> None:
        _apply(change, durable=False)
        self._pending.append(change)

    def sync(self, folder: Folder) -> None:
        """Make the pending changes of one folder durable, and earlier pending changes of the same names."""
        needed: set[tuple[int, str]] = set()
        chosen: list[Change] = []
        for change in reversed(self._pending):
            if any(entry.folder is folder for entry in change) or not needed.isdisjoint(_names(change)):
                needed.update(_names(change))
                chosen.append(change)
        for change in reversed(chosen):
            _apply(change, durable=True)
        done = {id(change) for change in chosen}
        self._pending = [change for change in self._pending if id(change) not in done]

    def sync_all(self) -> None:
        for change in self._pending:
            _apply(change, durable=True)
        self._pending.clear()

    def fail_to_sync(self, random: Random) -> None:
        """Simulate a failed sync: some random pending changes are durable, and no later sync writes the others."""
        self._settle(random, Unsynced.ANY)

    def power_cut(self, random: Random, unsynced: Unsynced) -> None:
        self._settle(random, unsynced)
        for folder in self._folders(durable=True):
            folder.names = dict(folder.durable)
        for file in self.files():
            file.power_cut(random, unsynced)

    def files(self) -> Iterator[CachedFile]:
        """Return every file that has a name, in a fixed order."""
        for folder in self._folders(durable=False):
            for _, node in sorted(folder.names.items()):
                if isinstance(node, CachedFile):
                    yield node

    def copy(self) -> Folders:
        """Return a deep copy of the tree with the same pending changes."""
        copies: dict[int, Node] = {}

        def copied(node: Node) -> Node:
            if id(node) not in copies:
                if isinstance(node, CachedFile):
                    copies[id(node)] = node.copy()
                else:
                    copies[id(node)] = other = Folder()
                    other.names = {name: copied(below) for name, below in node.names.items()}
                    other.durable = {name: copied(below) for name, below in node.durable.items()}
            return copies[id(node)]

        def copied_folder(folder: Folder) -> Folder:
            other = copied(folder)
            assert isinstance(other, Folder)
            return other

        tree = Folders()
        tree.root = copied_folder(self.root)
        tree._pending = [
            tuple(Entry(copied_folder(folder), name, node and copied(node)) for folder, name, node in change)
            for change in self._pending
        ]
        return tree

    def _settle(self, random: Random, unsynced: Unsynced) -> None:
        if unsynced is Unsynced.ANY:
            unsynced = random.choice((Unsynced.LOST, Unsynced.KEPT, Unsynced.ANY, Unsynced.ANY))
        undone: set[tuple[int, str]] = set()
        unmade: set[int] = set()
        for change in self._pending:
            possible = undone.isdisjoint(_names(change)) and all(id(entry.folder) not in unmade for entry in change)
            if possible and (unsynced is Unsynced.KEPT or (unsynced is Unsynced.ANY and random.random() < 0.5)):
                _apply(change, durable=True)
            else:
                undone.update(_names(change))
                if len(change) == 1:
                    unmade.update(id(entry.node) for entry in change if isinstance(entry.node, Folder))
        self._pending.clear()

    def _folders(self, *, durable: bool) -> Iterator[Folder]:
        waiting = [self.root]
        while waiting:
            folder = waiting.pop()
            yield folder
            names = folder.durable if durable else folder.names
            waiting += [node for _, node in sorted(names.items(), reverse=True) if isinstance(node, Folder)]


def _apply(change: Change, *, durable: bool) -> None:
    for folder, name, node in change:
        names = folder.durable if durable else folder.names
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _names(change: Change) -> Iterator[tuple[int, str]]:
    # The ids of objects are compared for equality, never ordered, so that the trace does not depend on them.
    return ((id(entry.folder), entry.name) for entry in change)


def _parts(path: str) -> list[str]:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path")
    return [part for part in os.path.normpath(path).split("/") if part]


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
