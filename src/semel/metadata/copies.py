"""The two files of the embedded store: which of them has everything that was acknowledged. Reads files, writes none.

Every commit is written to the first file and synced, then to the second and synced, and only then acknowledged. So
without damage the first file is never behind the second, and the two are never torn at the same time. So the choice at
a start is simple, whatever happened to one of them: the file that is whole and has the highest sequence number is
right, and the other one is made equal to it. ``docs/design/metadata.md`` has all cases.

A start is refused if both were damaged: no file is whole, or the one that is not whole has a sound record with a higher
sequence number than the whole one. Otherwise acknowledged changes could be lost.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from semel.errors import DecodeError, StorageError
from semel.log.disk import Disk, read_file
from semel.metadata import change_file
from semel.metadata.change_file import Contents

COPY_SUFFIX: Final = ".copy"


@dataclass(frozen=True, slots=True)
class Found:
    """One of the two files, as it was read."""

    path: str
    data: bytes | None
    """``None`` if there is no file, or it cannot be read."""
    contents: Contents | None
    """``None`` if the file cannot be read as a metadata file."""
    trouble: str | None
    """What is wrong with the file, in one sentence; ``None`` if it is whole."""
    is_missing: bool = False

    @property
    def is_whole(self) -> bool:
        return self.trouble is None

    @property
    def sequence_seen(self) -> int:
        return 0 if self.contents is None else self.contents.sequence_seen


def paths_of(path: str) -> tuple[str, str]:
    """The paths of the two files of the store at ``path``, in the order in which a commit is written to them."""
    return path, path + COPY_SUFFIX


def look(disk: Disk, path: str) -> tuple[Found, Found]:
    """Read the two files of the store at ``path``. Nothing is changed."""
    first, second = paths_of(path)
    return _look_at(disk, first), _look_at(disk, second)


def _look_at(disk: Disk, path: str) -> Found:
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return Found(path, None, None, "is missing", is_missing=True)
    except OSError as error:
        return Found(path, None, None, f"cannot be read: {error}")
    try:
        contents = change_file.read(data)
    except DecodeError as error:
        return Found(path, data, None, f"is no metadata file: {error}")
    if contents.is_whole:
        return Found(path, data, contents, None)
    trouble = (
        f"is sound up to change {contents.sequence} (its first {contents.size_bytes} bytes); "
        f"{contents.unsound_bytes} bytes behind that are not"
    )
    if contents.sequence_seen > contents.sequence:
        trouble += f", although a sound record of change {contents.sequence_seen} follows"
    return Found(path, data, contents, trouble)


def choose(found: tuple[Found, Found]) -> Found:
    """Return the right file. Raises ``StorageError``, which names both, if acknowledged changes could be lost."""
    whole = [file for file in found if file.is_whole]
    if not whole:
        raise StorageError(_refusal(found))
    right = max(whole, key=_sequence)  # If they are equal, the first one.
    other = found[1] if right is found[0] else found[0]
    if other.sequence_seen > _sequence(right):
        raise StorageError(_refusal(found))
    if other.is_whole and _sequence(other) == _sequence(right) and _values(other) != _values(right):
        raise StorageError(
            f"{right.path} and {other.path} are both sound up to change {_sequence(right)} and say different things: "
            "they are not of the same store. Put back the one that does not belong here, and start again"
        )
    return right


def longest_sound(found: tuple[Found, Found]) -> Found | None:
    """Return the file with the longest sound part, for an operator who accepts the loss of what comes after it."""
    readable = [file for file in found if file.contents is not None]
    return max(readable, key=_sequence) if readable else None


def _sequence(file: Found) -> int:
    return -1 if file.contents is None else file.contents.sequence


def _values(file: Found) -> object:
    return None if file.contents is None else file.contents.values


def _refusal(found: tuple[Found, Found]) -> str:
    said = [
        f"{file.path} {file.trouble}"
        if file.trouble is not None
        else f"{file.path} is sound and ends with change {_sequence(file)}"
        for file in found
    ]
    best = longest_sound(found)
    last = (
        "Neither has anything sound"
        if best is None
        else f"The last sound copy is {best.path} up to change {_sequence(best)}"
    )
    return (
        f"the metadata is damaged in both of its files: {said[0]}; {said[1]}. {last}, and starting with it could "
        "forget topics and settings that were acknowledged. Restore one of the files from a backup, or accept the "
        f"loss with: semel log repair {os.path.dirname(found[0].path)} --accept-loss metadata"
    )
