"""The format of the embedded store's two files: a header, then one record per commit, each with its own CRC32C. Pure.

Records are only appended. A file is *whole* if it consists of sound records from its header to its last byte. With one
file, a last record that a crash tore cannot be told from one that was damaged later; with two it can, see ``copies``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from semel.errors import DecodeError
from semel.metadata.store import Versioned
from semel.wire.crc import crc32c

_MAGIC: Final = b"semelmd"
VERSION: Final = 2
HEADER: Final = _MAGIC + bytes([VERSION])
VERSION_OF_ONE_FILE: Final = 1  # Written by a version of Semel that had only one file. The records are the same.

_FRAME = struct.Struct(">II")  # size of the body, CRC32C of the size and the body
_BODY = struct.Struct(">QI")  # sequence, number of entries
_PATH = struct.Struct(">HqI")  # size of the path, version (-1: deleted), size of the value
_DELETED = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """The value that one commit wrote at one path, with its version; ``None`` if it deleted the value."""

    path: str
    written: Versioned | None


@dataclass(frozen=True, slots=True)
class Record:
    """One commit. Its sequence number is larger than that of every record before it."""

    sequence: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file: the values and the last sequence number of its sound part, and the size of the rest."""

    values: dict[str, Versioned]
    sequence: int
    size_bytes: int
    """The size of the sound part, from the beginning of the file."""
    unsound_bytes: int = 0
    """How many bytes come after the sound part; 0 if the file is whole."""
    sequence_seen: int = 0
    """The highest sequence number of a sound record anywhere in the file, also after an unsound one."""
    version: int = VERSION
    sequence_before: int = 0
    """The sequence number of the last sound record but one."""

    @property
    def is_whole(self) -> bool:
        return self.unsound_bytes == 0


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
    """Return a new file that has these values in one record."""
    return HEADER + encode(Record(sequence, tuple(Entry(path, written) for path, written in values.items())))


def read(data: bytes) -> Contents:
    """Return the contents of the sound part of a file. Raises ``DecodeError`` if its header is wrong."""
    begins = data[: len(HEADER)]
    if len(begins) < len(HEADER) or begins[:-1] != _MAGIC:
        raise DecodeError(f"it begins with {begins!r}; a metadata file begins with {HEADER!r}")
    version = begins[-1]
    if version not in (VERSION_OF_ONE_FILE, VERSION):
        raise DecodeError(f"it has format version {version}; this program knows versions up to {VERSION}")
    values: dict[str, Versioned] = {}
    sequence = sequence_before = 0
    position = len(HEADER)
    while (found := record_at(data, position, after_sequence=sequence)) is not None:
        record, position = found
        sequence_before, sequence = sequence, record.sequence
        for entry in record.entries:
            if entry.written is None:
                values.pop(entry.path, None)
            else:
                values[entry.path] = entry.written
    seen = _last_sequence(data, position + 1, after_sequence=sequence)
    return Contents(values, sequence, position, len(data) - position, seen, version, sequence_before)


def _last_sequence(data: bytes, position: int, *, after_sequence: int) -> int:
    """Return the sequence number of the last sound record at or after a position. Any byte may begin a record."""
    while position < len(data):
        found = record_at(data, position, after_sequence=after_sequence)
        if found is None:
            position += 1
        else:
            record, position = found
            after_sequence = record.sequence
    return after_sequence


def record_at(data: bytes, position: int, *, after_sequence: int) -> tuple[Record, int] | None:
    """Return the sound record at a position and the position of the next one, or ``None``."""
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
    try:
        for _ in range(count):
            path_size, version, value_size = _PATH.unpack_from(data, at)
            at += _PATH.size
            path = data[at : at + path_size].decode()
            at += path_size
            value = data[at : at + value_size]
            at += value_size
            entries.append(Entry(path, None if version == _DELETED else Versioned(value, version)))
    except (struct.error, UnicodeDecodeError):
        return None  # Its CRC is right, but no version of Semel has written it.
    return (Record(sequence, tuple(entries)), end) if at == end else None
