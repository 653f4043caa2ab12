"""The embedded store's two files on a disk: opened after whatever happened, appended to one after the other.

``copies`` says which file is right; here the other one is made equal to it.
"""

from __future__ import annotations

import contextlib
import logging
import os

from semel.errors import StorageError
from semel.log.disk import NO_ROOM, Disk, File, replace_file
from semel.log.durability.checkpoints import MetaProperties
from semel.log.recovery.identity import trace_of_logs
from semel.metadata import change_file, copies, paths
from semel.metadata.change_file import Contents

logger = logging.getLogger(__name__)


class NoRoom(Exception):
    """The disk is full. What was written of the change has been taken back, in both files."""


class StoreFile:
    """One of the two files, open, and how much of it is sound."""

    __slots__ = ("file", "path", "size_bytes")

    def __init__(self, path: str, file: File, size_bytes: int) -> None:
        self.path = path
        self.file = file
        self.size_bytes = size_bytes

    @classmethod
    def open(cls, disk: Disk, path: str) -> StoreFile:
        """Open a file that is whole. What was written but not synced when a process died is synced now."""
        file = disk.open(path)
        file.sync()
        return cls(path, file, file.size())

    def write(self, data: bytes) -> None:
        """Write behind the sound part, or raise ``NoRoom`` with nothing left behind it."""
        try:
            self.file.write(self.size_bytes, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.take_back()
            raise NoRoom(f"{self.path} could not be written ({error})") from error

    def take_back(self) -> None:
        """Cut off what is behind the sound part. Synced: a refused change must not come back with the next start."""
        self.file.truncate(self.size_bytes)
        self.file.sync()

    def replace(self, disk: Disk, data: bytes) -> bool:
        """Put a new file in the place of this one; False if there was no room for it, and this one is still whole."""
        beside = _beside(self.path)
        try:
            with contextlib.closing(disk.open(beside, create=True)) as file:
                file.truncate(0)
                file.write(0, data)
                file.sync()
        except OSError:
            with contextlib.suppress(OSError):
                disk.remove(beside)
            return False
        # From here on a failure is final: after a power cut either file could be the one that is found.
        disk.rename(beside, self.path)
        disk.sync_directory(os.path.dirname(self.path))
        old, self.file, self.size_bytes = self.file, disk.open(self.path), len(data)
        old.close()
        return True


def append_to_both(first: StoreFile, second: StoreFile, data: bytes) -> None:
    """Write and sync a record in one file and then in the other, or raise ``NoRoom`` with the record in neither."""
    first.write(data)
    first.file.sync()
    try:
        second.write(data)
    except NoRoom:
        first.take_back()
        raise
    second.file.sync()


def open_files(disk: Disk, path: str) -> tuple[tuple[StoreFile, StoreFile], Contents]:
    """The files of the store at ``path``, equal and synced, and what they say. Raises ``StorageError``."""
    for file_path in copies.paths_of(path):
        disk.remove(_beside(file_path))
    contents = _load(disk, path)
    first, second = (StoreFile.open(disk, file_path) for file_path in copies.paths_of(path))
    disk.sync_directory(os.path.dirname(path))
    return (first, second), contents


def identity_in(disk: Disk, store: str, *, node_id: int) -> MetaProperties | None:
    """Whose data directory it is according to the store at ``store``, or ``None`` if there is no store yet.

    The store knows the cluster's id, and its topics name the nodes that keep them. Raises ``StorageError`` if the
    store is damaged, or keeps nothing for this node.
    """
    found = copies.look(disk, store)
    if all(file.is_missing for file in found):
        return None
    contents = (_torn_file_of_earlier_version(found) or copies.choose(found)).contents
    assert contents is not None, "what was chosen could be read"
    if (cluster_id := contents.values.get(paths.CLUSTER_ID)) is None:
        return None  # A first start that did not come further.
    prefix = paths.TOPICS + "/"
    topics = [
        paths.decode_topic(path[len(prefix) :], known.value)
        for path, known in contents.values.items()
        if path.startswith(prefix)
    ]
    nodes = {replica for topic in topics for state in topic.partitions for replica in state.replicas}
    if nodes and node_id not in nodes:
        raise StorageError(
            f"{store} has topics of node {', '.join(map(str, sorted(nodes)))}; node.id is {node_id}. "
            "Start with the node.id that the directory belongs to"
        )
    return MetaProperties(cluster_id.value.decode(), node_id)


def _load(disk: Disk, path: str) -> Contents:
    """What the files say, after both of them say it. Begins them if there are none, and no logs beside them either."""
    found = copies.look(disk, path)
    if all(file.is_missing for file in found):
        _refuse_to_forget(disk, path)
        for file in found:
            _replace(disk, file.path, change_file.HEADER)
        return change_file.read(change_file.HEADER)
    right = _torn_file_of_earlier_version(found) or copies.choose(found)
    assert right.data is not None, "what was chosen could be read"
    assert right.contents is not None, "what was chosen could be read"
    contents = right.contents
    if not right.is_whole:
        kept = right.path + ".before-upgrade"
        _replace(disk, kept, right.data)
        logger.warning("%s %s; they are cut off, and the file as it was is %s", right.path, right.trouble, kept)
    data = change_file.HEADER + right.data[len(change_file.HEADER) : contents.size_bytes]
    for file in reversed(found):  # The second one first: a file without a second one beside it is of the old format.
        known = file.contents
        if file.is_whole and known is not None and known.sequence == contents.sequence:
            if known.version == change_file.VERSION:
                continue
        elif contents.version == change_file.VERSION:
            trouble = file.trouble or f"ends with change {known.sequence if known else 0}"
            logger.warning(
                "%s %s; it was made again from %s, which is sound and ends with change %d",
                file.path,
                trouble,
                right.path,
                contents.sequence,
            )
        _replace(disk, file.path, data)
    return contents


def _torn_file_of_earlier_version(found: tuple[copies.Found, copies.Found]) -> copies.Found | None:
    """The one file of an earlier version of Semel, if its end is unsound: as that version did, that is called torn."""
    first, second = found
    contents = first.contents
    if not second.is_missing or contents is None or contents.version != change_file.VERSION_OF_ONE_FILE:
        return None
    if contents.is_whole or contents.sequence_seen > contents.sequence:
        return None  # It is for ``choose`` to take or to refuse it.
    return first


def _refuse_to_forget(disk: Disk, path: str) -> None:
    folder = os.path.dirname(path)
    if (trace := trace_of_logs(disk, folder)) is not None:
        first, second = copies.paths_of(path)
        raise StorageError(
            f"{first} and {second} are missing, and {folder} holds logs ({trace}): without them every topic would be "
            "forgotten. Restore one of the two files from a backup, or move the logs elsewhere to begin empty"
        )


def _replace(disk: Disk, path: str, data: bytes) -> None:
    try:
        replace_file(disk, path, data)
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error}") from error


def _beside(path: str) -> str:
    return path + ".tmp"
