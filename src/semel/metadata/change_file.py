"""The format of the embedded store's file: a header, then one record per commit, each with its own CRC32C. Pure.

Records are only ever appended, and each is synced before the next is written. So after a crash at most the last one is
torn, and it was never acknowledged: it is cut off. A bad record with a good one behind it is no crash but damage, and a
store that has lost acknowledged changes must not start as if nothing had happened.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from semel.errors import StorageError
from semel.metadata.store import Versioned
from semel.wire.crc import crc32c

HEADER: Final = b"semelmd\x01"  # The last byte is the version of the format.

_FRAME = struct.Struct(">II")  # size of the body, CRC32C of the size and the body
_BODY = struct.Struct(">QI")  # sequence, number of entries
_PATH = struct.Struct(">HqI")  # size of the path, version (-1: deleted), size of the value
_DELETED = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """What one commit left at one path: a value with its version, or nothing."""

    path: str
    written: Versioned | None


@dataclass(frozen=True, slots=True)
class Record:
    """One commit. Its sequence number is larger than that of every record before it."""

    sequence: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file says: the values, the last sequence number, and where its sound part ends."""

    values: dict[str, Versioned]
    sequence: int
    size_bytes: int


def encode(record: Record) -> bytes:
    parts = [_BODY.pack(record.sequence, len(record.entries))]
    for entry in record.entries:
        path = entry.path.encode()
        value, version = entry.written or (b"", _DELETED)
        parts += (_PATH.pack(len(path), version, len(value)), path, value)
    body = b"".join(parts)
    size = len(body).to_bytes(4, "big")
    return _FRAME.pack(len(body), crc32c(body, crc32c(size))) + body


def snapshot(values: dict[str, Versioned], sequence: int) -> bytes:
    """A whole new file that says the same in one record."""
    return HEADER + encode(Record(sequence, tuple(Entry(path, written) for path, written in values.items())))


def read(data: bytes, name: str) -> Contents:
    """The contents of the file called ``name``. Raises ``StorageError`` if it is damaged rather than torn."""
    if data[: len(HEADER)] != HEADER:
        raise StorageError(f"{name} begins with {data[: len(HEADER)]!r}; a metadata file begins with {HEADER!r}")
    values: dict[str, Versioned] = {}
    sequence = 0
    position = len(HEADER)
    while (found := _record_at(data, position, after_sequence=sequence)) is not None:
        record, position = found
        sequence = record.sequence
        for entry in record.entries:
            if entry.written is None:
                values.pop(entry.path, None)
            else:
                values[entry.path] = entry.written
    for later in range(position + 1, len(data)):
        if _record_at(data, later, after_sequence=sequence) is not None:
            raise StorageError(
                f"{name} is damaged at position {position}: a sound record follows at {later}, so this is no torn end. "
                "Restore the file from a copy; starting without it would forget acknowledged changes"
            )
    return Contents(values, sequence, position)


def _record_at(data: bytes, position: int, *, after_sequence: int) -> tuple[Record, int] | None:
    """The sound record at a position and where the next one begins, or ``None``."""
    start = position + _FRAME.size
    if start + _BODY.size > len(data):
        return None
    size, crc = _FRAME.unpack_from(data, position)
    end = start + size
    if size < _BODY.size or end > len(data):
        return None
    if crc32c(memoryview(data)[start:end], crc32c(data[position : position + 4])) != crc:
        return None
    sequence, count = _BODY.unpack_from(data, start)
    if sequence <= after_sequence:
        return None
    entries, at = [], start + _BODY.size
    for _ in range(count):
        path_size, version, value_size = _PATH.unpack_from(data, at)
        at += _PATH.size
        path = data[at : at + path_size].decode()
        at += path_size
        value = data[at : at + value_size]
        at += value_size
        entries.append(Entry(path, None if version == _DELETED else Versioned(value, version)))
    assert at == end, "the CRC is right, so the record is as it was written"
    return Record(sequence, tuple(entries)), end
