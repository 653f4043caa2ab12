"""Verification of the journal files: which entries are sound, and how far they continue each partition's log.

It has its own reader of the format that ``durability/journal.py`` describes, so it is an independent check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final
from uuid import UUID

from semel.errors import DecodeError
from semel.log.disk import Disk, read_file
from semel.log.durability.journal import FILE_NAMES, KEPT_FILE_NAME, Entry, Kind
from semel.log.verification.findings import Finding, Severity
from semel.wire.crc import crc32c
from semel.wire.records import iterate_headers

_MAGIC: Final = b"SEML"
_HEADER: Final = Struct(">4sIQB16siqI")  # magic, CRC, generation, kind, topic id, partition, base offset, length
_CRC_END: Final = 8
_KINDS: Final = frozenset(map(int, Kind))


@dataclass(slots=True)
class JournalCheck:
    """What the journal holds for each partition, in the order in which a start replays it."""

    entries: dict[tuple[UUID, int], list[Entry]] = field(default_factory=dict)
    behind_damage: dict[tuple[UUID, int], list[tuple[str, Entry]]] = field(default_factory=dict)
    """Sound entries that a start does not reach, with the path of their file: something before them is unsound."""
    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def end_after(self, key: tuple[UUID, int], offset: int) -> int:
        """The offset up to which the journal continues a log that ends at ``offset``."""
        return _end_after(self.entries.get(key, []), offset)

    def gap_after(self, key: tuple[UUID, int], offset: int) -> int | None:
        """The base offset of the first entry that follows a gap above the end of a log; ``None`` if there is no gap."""
        for entry in self.entries.get(key, []):
            if entry.kind is Kind.VOID:
                return None  # A VOID is rare, and the order of the entries matters then: only a start handles it.
            if entry.base_offset > offset:
                return entry.base_offset
            offset = max(offset, _end_after([entry], offset))
        return None

    def unreached_after(self, key: tuple[UUID, int], offset: int) -> tuple[str, int] | None:
        """The file and the end offset of entries that would continue a log, but follow an unsound entry."""
        found = self.behind_damage.get(key, [])
        end = max((_end_after([entry], entry.base_offset) for _, entry in found), default=0)
        return (found[0][0], end) if end > offset else None


def check_journal(disk: Disk, folder: str) -> JournalCheck:
    check = JournalCheck()
    generations: list[tuple[int, list[Entry]]] = []
    for name in (*FILE_NAMES, KEPT_FILE_NAME):
        path = f"{folder}/{name}"
        if not disk.exists(path):
            continue
        data = read_file(disk, path)
        check.files += 1
        check.bytes += len(data)
        generations.append(_read(memoryview(data), path, check))
    for _, entries in sorted(generations, key=lambda item: item[0]):
        for entry in entries:
            check.entries.setdefault((entry.topic_id, entry.partition), []).append(entry)
    return check


def entry_at(view: memoryview, position: int) -> tuple[int, Entry, int] | None:
    """The generation of the sound entry at a position, the entry, and its end position; ``None`` if there is none."""
    if position + _HEADER.size > len(view):
        return None
    magic, crc, generation, kind, topic_id, partition, base_offset, length = _HEADER.unpack_from(view, position)
    end = position + _HEADER.size + length
    if magic != _MAGIC or kind not in _KINDS or end > len(view):
        return None
    if crc32c(view[position + _CRC_END : end]) != crc:
        return None
    payload = view[position + _HEADER.size : end]
    return generation, Entry(Kind(kind), UUID(bytes=topic_id), partition, base_offset, payload), end


def _read(view: memoryview, path: str, check: JournalCheck) -> tuple[int, list[Entry]]:
    entries: list[Entry] = []
    position, generation = 0, 0
    while (found := entry_at(view, position)) is not None and (not entries or found[0] == generation):
        generation, entry, position = found
        entries.append(entry)
        if entry.kind is Kind.DATA and not _is_sound(entry):
            check.findings.append(
                Finding(
                    path,
                    Severity.LOSS,
                    f"the entry that ends at position {position} holds no record batches",
                    "does not replay it",
                )
            )
    if not entries:
        generation = _claimed_generation(view)
    for entry in _behind(bytes(view[position:]), generation):
        check.behind_damage.setdefault((entry.topic_id, entry.partition), []).append((path, entry))
    return generation, entries


def _claimed_generation(view: memoryview) -> int:
    """The generation in an unsound first entry; -1 if there is none: a released file begins with zeros."""
    return int.from_bytes(view[8:16], "big") if bytes(view[:4]) == _MAGIC else -1


def _behind(data: bytes, generation: int) -> list[Entry]:
    """The sound entries of the same generation after an unsound one. A crash leaves no acknowledged entry there."""
    view, found = memoryview(data), []
    at = data.find(_MAGIC)
    while at >= 0:
        entry = entry_at(view, at)
        if entry is not None and entry[0] == generation:
            found.append(entry[1])
            at = data.find(_MAGIC, entry[2])
        else:
            at = data.find(_MAGIC, at + 1)
    return found


def _is_sound(entry: Entry) -> bool:
    try:
        return any(True for _ in iterate_headers(entry.payload))
    except DecodeError:
        return False


def _end_after(entries: list[Entry], offset: int) -> int:
    for entry in entries:
        if entry.kind is Kind.VOID:
            continue
        follows = entry.base_offset
        try:
            for _, header in iterate_headers(entry.payload):
                if follows <= offset < header.next_offset:
                    offset = header.next_offset
                follows = header.next_offset
        except DecodeError:
            continue
    return offset
