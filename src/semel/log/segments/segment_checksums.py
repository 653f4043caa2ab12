"""One segment's ``.checksums``: the length of its log file at the last checkpoint, and the checksums of its indexes.

Kafka's index files have no checksum and do not say how long they should be. This file does; Kafka's tools ignore it. At
a start an index is used only if its checksum is right; otherwise it is built again from the log. Compaction writes a
new ``.checksums`` together with the new indexes.

The law: it is written after the files it describes are synced. So the log file is never shorter than this file says,
and each index begins with the bytes that this file describes. Both may be longer, by what was written after the
checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.errors import DecodeError
from semel.log import checked_text
from semel.log.disk import Disk, read_file
from semel.types import Buffer
from semel.wire.crc import crc32c

CHECKSUMS_SUFFIX: Final = ".checksums"
VERSION: Final = 1

_INDEX_KEYS: Final = ("index", "timeindex", "txnindex")


class IndexChecksum(NamedTuple):
    size_bytes: int
    crc: int

    def matches(self, data: bytes) -> bool:
        """Whether the file still begins with what was written at the checkpoint."""
        return len(data) >= self.size_bytes and crc32c(memoryview(data)[: self.size_bytes]) == self.crc


@dataclass(frozen=True, slots=True)
class SegmentChecksums:
    end_offset: int  # where the segment's batches ended; for a closed segment the base offset of the next one
    log_size_bytes: int
    indexes: tuple[IndexChecksum, ...]  # in the order of INDEX_SUFFIXES


def encode(checksums: SegmentChecksums) -> bytes:
    return checked_text.encode(
        (
            ("version", VERSION),
            ("end_offset", checksums.end_offset),
            ("log", checksums.log_size_bytes),
            *(
                (key, f"{index.size_bytes} {index.crc}")
                for key, index in zip(_INDEX_KEYS, checksums.indexes, strict=True)
            ),
        )
    )


def decode(data: bytes) -> SegmentChecksums:
    """Decode the content of a ``.checksums`` file. Raises ``DecodeError``."""
    fields = checked_text.decode(data, version=VERSION)
    if tuple(key for key, _ in fields) != ("end_offset", "log", *_INDEX_KEYS):
        raise DecodeError(f"its fields are {[key for key, _ in fields]}")
    (_, end_offset), (_, log_size_bytes), *indexes = fields
    return SegmentChecksums(int(end_offset), int(log_size_bytes), tuple(map(_index_checksum, _values(indexes))))


def read_end_offset(disk: Disk, stem: str) -> int | None:
    """The offset where a segment ended at the last checkpoint; ``None`` if its checksums are missing or damaged.

    ``stem``: the path of the segment's files, without a suffix.
    """
    try:
        return decode(read_file(disk, stem + CHECKSUMS_SUFFIX)).end_offset
    except (FileNotFoundError, DecodeError, ValueError):
        return None


def _values(fields: Sequence[tuple[str, str]]) -> list[str]:
    return [value for _, value in fields]


def _index_checksum(text: str) -> IndexChecksum:
    size_bytes, crc = text.split(" ")
    return IndexChecksum(int(size_bytes), int(crc))


class RunningChecksum:
    """The checksum of an index that mostly grows at its end: only new entries are packed again."""

    __slots__ = ("_crc", "_entries", "_entry_size")

    def __init__(self, entry_size: int) -> None:
        self._entry_size = entry_size
        self._entries = self._crc = 0

    def loaded(self, entries: int, data: Buffer) -> None:
        self._entries, self._crc = entries, crc32c(data)

    def cut(self, entries: int) -> None:
        if entries < self._entries:
            self._entries = self._crc = 0

    def over(self, entries: int, packed: Callable[[int, int], bytes]) -> IndexChecksum:
        """The checksum of the first ``entries`` entries. ``packed(first, end)`` returns the bytes of these entries."""
        self._crc = crc32c(packed(self._entries, entries), self._crc)
        self._entries = entries
        return IndexChecksum(entries * self._entry_size, self._crc)
