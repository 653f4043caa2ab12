"""The journal: a second copy of the newest batches of all partitions in one file, so that one sync covers them all.

Two files are used in turn. The active one is filled from its start with entries of one *generation*. Bytes of an
earlier use that follow have a lower generation, so reading stops there. A file is overwritten only after every
partition that wrote into it has synced its own files (see ``checkpointer.py``).

A third file, ``journal.kept``, holds the entries of partitions that could not be opened at the start: they may be the
only copy of acknowledged records, and the other two files are about to be overwritten. It is replaced as a whole.

A file is filled with zeros before it is used: a sync then writes data only, no file system metadata, which halves its
time. On a full disk these zeros are the reserve: ``release_reserve`` frees them, so that there is room for the few
bytes that a deletion has to write.

    entry = magic u32, crc32c u32, generation u64, kind u8, topic id 16 bytes, partition i32, base offset i64,
            length u32, payload                         (the CRC covers everything after it)
"""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from semel.errors import StorageError
from semel.log.disk import Disk, File, read_file, replace_file
from semel.types import Buffer
from semel.wire.crc import crc32c

FILE_SIZE_BYTES: Final = 64 * 1024 * 1024
SIZE_LIMIT_FACTOR: Final = 2  # how many times its size the active file may have while the other file cannot be released
FILE_NAMES: Final = ("journal.0", "journal.1")  # no partition's folder can have such a name
KEPT_FILE_NAME: Final = "journal.kept"

_MAGIC: Final = 0x53454D4C
_HEADER: Final = struct.Struct(">IIQB16siqI")
_UP_TO_CRC: Final = struct.Struct(">II")
_AFTER_CRC: Final = struct.Struct(">QB16siqI")
_CRC_END: Final = 8
_GENERATION_END: Final = 16
_KEPT_GENERATION: Final = 1
_RESERVED_BYTES: Final = 32 * 1024  # the small files that a deletion writes, in blocks of the file system
_ZEROED_AHEAD_MIN: Final = 256 * 1024
_ZEROED_AHEAD_MAX: Final = 8 * 1024 * 1024


class Kind(IntEnum):
    DATA = 1
    VOID = 2  # cancels the earlier entries of this partition at or above the base offset


_KINDS: Final = tuple(map(int, Kind))


class Entry(NamedTuple):
    kind: Kind
    topic_id: UUID
    partition: int
    base_offset: int
    payload: Buffer


class Journal:
    """The journal files, for writing. ``append`` runs on the commit worker; a lock lets other threads append a ``VOID``
    entry, which is rare."""

    def __init__(self, disk: Disk, folder: str, *, generation: int, size_max: int = FILE_SIZE_BYTES) -> None:
        self._disk = disk
        self._paths = [f"{folder}/{name}" for name in FILE_NAMES]
        self._files: list[File] = [disk.open(path, create=True) for path in self._paths]
        self._zeroed_to = [file.size() for file in self._files]
        disk.sync_directory(folder)
        self._active = generation % 2
        self._generation = generation
        self._position = 0
        self._size_max = size_max
        self._other_is_free = True
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        return self._position >= self._size_max

    @property
    def can_switch(self) -> bool:
        """Whether the other file's content is no longer needed. As long as it is needed, the active file grows beyond
        its size."""
        return self._other_is_free

    @property
    def is_at_size_limit(self) -> bool:
        """Whether the active file is at its size limit, since failed checkpoints keep the other file in use."""
        return self._position >= self._size_max * SIZE_LIMIT_FACTOR

    def has_room_for(self, payload_bytes: int, entries: int) -> bool:
        """Whether an append of this size fits into the file without growing it."""
        return self._position + payload_bytes + entries * _HEADER.size <= self._zeroed_to[self._active]

    def append(self, entries: Sequence[Entry]) -> None:
        """Write the entries and return once they would survive a power cut, or raise ``OSError``.

        After an error the next append begins at the same position. So it can be repeated when there is room; what this
        one has written is overwritten, or fails its CRC.
        """
        parts: list[Buffer] = []
        size = 0
        with self._lock:
            for kind, topic_id, partition, base_offset, payload in entries:
                rest = _AFTER_CRC.pack(self._generation, kind, topic_id.bytes, partition, base_offset, len(payload))
                crc = crc32c(payload, crc32c(rest))
                parts += (_UP_TO_CRC.pack(_MAGIC, crc), rest, payload)
                size += _HEADER.size + len(payload)
            file = self._files[self._active]
            if self._zero_ahead(file, self._position + size):
                file.write_many(self._position, parts)
                file.sync()  # This syncs the zeros, too. Otherwise the next syncs would have to wait for them.
            else:
                file.write_many(self._position, parts, sync=True)
            self._position += size

    def switch(self) -> None:
        """Use the other file. What was written so far stays readable until ``release``."""
        assert self._other_is_free
        with self._lock:
            self._active = 1 - self._active
            self._generation += 1
            self._position = 0
            self._other_is_free = False

    def release(self) -> None:
        """Release the file that ``switch`` left: its partitions have synced their own files."""
        self._other_is_free = True
        # Not synced, and an error is ignored: this only saves the next start from reading entries that it would skip.
        with contextlib.suppress(OSError):
            self._files[1 - self._active].write(0, bytes(_CRC_END))

    def reserve(self) -> None:
        """Called periodically: write zeros ahead, which ``release_reserve`` can free. A full disk may refuse them."""
        if not self._lock.acquire(blocking=False):
            return  # An append is running, which writes zeros itself.
        try:
            zeroed_to = self._zeroed_to[self._active]
            missing = _RESERVED_BYTES - (zeroed_to - self._position)
            if missing > 0:
                self._files[self._active].write(zeroed_to, bytes(missing))
                self._zeroed_to[self._active] = zeroed_to + missing
        except OSError:
            pass
        finally:
            self._lock.release()

    def release_reserve(self) -> bool:
        """Release the space that is allocated and not in use. Returns whether there was any.

        The next append allocates it again, or fails because there is no room.
        """
        with self._lock:
            in_use = {self._active: self._position}
            if self._other_is_free:
                in_use[1 - self._active] = 0
            given = 0
            for number, end in in_use.items():
                file = self._files[number]
                given += file.size() - end
                file.truncate(end)
                self._zeroed_to[number] = end
        return given > 0

    def forget(self) -> None:
        """Empty the journal: all of it is synced in the partitions' own files, so the next start need not read it."""
        for file in self._files:
            file.write(0, bytes(_CRC_END))
            file.sync()

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _zero_ahead(self, file: File, end: int) -> bool:
        """Fill the file with zeros ahead of the writes. Returns whether that was necessary."""
        zeroed_to = self._zeroed_to[self._active]
        if end <= zeroed_to:
            return False
        ahead = min(max(_ZEROED_AHEAD_MIN, end), _ZEROED_AHEAD_MAX)
        file.write(end, bytes(ahead))
        self._zeroed_to[self._active] = end + ahead
        return True


def write_kept(disk: Disk, folder: str, entries: Sequence[Entry]) -> None:
    """Replace ``journal.kept``: it then has these entries, for the next start, and no others."""
    path = f"{folder}/{KEPT_FILE_NAME}"
    if entries:
        replace_file(disk, path, b"".join(part for entry in entries for part in _encoded(entry, _KEPT_GENERATION)))
    elif disk.exists(path):
        disk.remove(path)
        disk.sync_directory(folder)


def _encoded(entry: Entry, generation: int) -> tuple[Buffer, ...]:
    kind, topic_id, partition, base_offset, payload = entry
    rest = _AFTER_CRC.pack(generation, kind, topic_id.bytes, partition, base_offset, len(payload))
    return _UP_TO_CRC.pack(_MAGIC, crc32c(payload, crc32c(rest))), rest, payload


def read_entries(disk: Disk, folder: str) -> tuple[int, list[Entry]]:
    """All sound entries, oldest first, and the highest generation seen (0 when there is no journal).

    A file that was emptied (``forget``, ``release``) still says which generation it had. The next journal needs a later
    one, or it would make the entries behind its own readable again.
    """
    kept: list[Entry] = []
    if disk.exists(f"{folder}/{KEPT_FILE_NAME}"):
        _, kept = decode_entries(read_file(disk, f"{folder}/{KEPT_FILE_NAME}"))
    found: list[tuple[int, list[Entry]]] = []
    highest = 0
    for name in FILE_NAMES:
        path = f"{folder}/{name}"
        if not disk.exists(path):
            continue
        file = disk.open(path)
        try:
            content = file.read(0, file.size())
        finally:
            file.close()
        generation, entries = decode_entries(content)
        if entries:
            found.append((generation, entries))
        highest = max(highest, generation or _generation_of_emptied(content))
    found.sort(key=lambda item: item[0])
    return highest, [*kept, *(entry for _, entries in found for entry in entries)]


def _generation_of_emptied(data: bytes) -> int:
    """The generation of a file whose first entry was made unreadable by ``forget`` or ``release``; 0 for others."""
    if len(data) < _GENERATION_END or any(data[:_CRC_END]):
        return 0
    return int.from_bytes(data[_CRC_END:_GENERATION_END], "big")


def decode_entries(data: bytes) -> tuple[int, list[Entry]]:
    """The generation of one file and its entries, up to the first that is unsound or of another generation."""
    view = memoryview(data)
    entries: list[Entry] = []
    position, first_generation = 0, 0
    while position + _HEADER.size <= len(view):
        magic, crc, generation, kind, topic_id, partition, base_offset, length = _HEADER.unpack_from(view, position)
        end = position + _HEADER.size + length
        if magic != _MAGIC or end > len(view) or crc32c(view[position + _CRC_END : end]) != crc:
            break
        if kind not in _KINDS:
            raise StorageError(f"the journal holds an entry of kind {kind}; this program knows {_KINDS}")
        if entries and generation != first_generation:
            break
        first_generation = generation
        payload = view[position + _HEADER.size : end]
        entries.append(Entry(Kind(kind), UUID(bytes=topic_id), partition, base_offset, payload))
        position = end
    return first_generation, entries
