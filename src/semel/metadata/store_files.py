"""The embedded store's two files on a disk: opening them after a crash or damage, and appending to both in turn.

``copies`` chooses the right file; here the other one is made equal to it.
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
    """The disk is full. What was written of the change has been removed again from both files."""


class StoreFile:
    """One of the two files, open, and the size of its sound part."""

    __slots__ = ("file", "path", "size_bytes")

    def __init__(self, path: str, file: File, size_bytes: int) -> None:
        self.path = path
        self.file = file
        self.size_bytes = size_bytes

    @classmethod
    def open(cls, disk: Disk, path: str) -> StoreFile:
        """Open a file that is whole. What was written and not synced when a process died is synced now."""
        file = disk.open(path)
        file.sync()
        return cls(path, file, file.size())

    def write(self, data: bytes) -> None:
        """Write after the sound part. If the disk is full, remove what was written again and raise ``NoRoom``."""
        try:
            self.file.write(self.size_bytes, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.truncate_unsound()
            raise NoRoom(f"{self.path} could not be written ({error})") from error

    def truncate_unsound(self) -> None:
        """Cut off what comes after the sound part. Synced: a refused change must not be there at the next start."""
        self.file.truncate(self.size_bytes)
        self.file.sync()

    def replace(self, disk: Disk, data: bytes) -> bool:
        """Replace this file by a new one. Returns False if there was no room for it; this file is then unchanged."""
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
        # From here on an error is raised and is final: after a power cut either file may be the one that is found.
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
        first.truncate_unsound()
        raise
    second.file.sync()


def open_files(disk: Disk, path: str) -> tuple[tuple[StoreFile, StoreFile], Contents]:
    """Return the files of the store at ``path``, equal and synced, and their contents. Raises ``StorageError``."""
    for file_path in copies.paths_of(path):
        disk.remove(_beside(file_path))
    contents = _load(disk, path)
    first, second = (StoreFile.open(disk, file_path) for file_path in copies.paths_of(path))
    disk.sync_directory(os.path.dirname(path))
    return (first, second), contents


def identity_in(disk: Disk, store: str, *, node_id: int) -> MetaProperties | None:
    """Return the identity of a data directory by the store at ``store``, or ``None`` if there is no store yet.

    The store has the cluster's id, and its topics name the nodes of their replicas. Raises ``StorageError`` if the
    store is damaged, or if its topics are only on other nodes.
    """
    found = copies.look(disk, store)
    if all(file.is_missing for file in found):
        return None
    contents = (_torn_file_of_earlier_version(found) or copies.choose(found)).contents
    assert contents is not None, "what was chosen could be read"
    if (cluster_id := contents.values.get(paths.CLUSTER_ID)) is None:
        return None  # A first start was interrupted before the id was written.
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
    """Return the contents of the files, after making them equal. If there are neither files nor logs, create them."""
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
    for file in reversed(found):  # The second file first: one without a second file beside it is of the old format.
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
    """Return the only file of an earlier version of Semel if its end is unsound, which that version took for torn."""
    first, second = found
    contents = first.contents
    if not second.is_missing or contents is None or contents.version != change_file.VERSION_OF_ONE_FILE:
        return None
    if contents.is_whole or contents.sequence_seen > contents.sequence:
        return None  # ``choose`` accepts or refuses it.
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
