"""Verification of one ``.log`` file, batch by batch, up to the first unsound one.

Without ``deep`` only the headers are read: each must be sound, follow the previous one, and end within the file. With
``deep`` every byte is read: checksums, and the records of each batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from semel.errors import DecodeError
from semel.log.disk import Disk, File
from semel.wire.records import HEADER_SIZE, MAGIC_POSITION, BatchHeader, iterate_records, parse_header, verify_crc

_STEP_BYTES: Final = 64 * 1024
_DEEP_STEP_BYTES: Final = 4 * 1024 * 1024

# How far after an unsound batch the next sound one is searched for.
_SEARCH_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WalkedBatch:
    position: int
    header: BatchHeader
    data: memoryview | None
    """The whole batch, if it was read: with ``deep``, and of every control batch."""


@dataclass(slots=True)
class Walk:
    """The state of one pass over a file. After the pass it has the end of the sound part, and what is wrong there."""

    path: str
    end_offset: int
    """The offset after the last sound batch."""
    position: int = 0
    """Where the sound part of the file ends."""
    size_bytes: int = 0
    trouble: str | None = None
    batches: int = 0
    records: int = 0
    resumes_at: int | None = None
    """The base offset of the next sound batch after the unsound place, if one was found."""
    last_offset_seen: int | None = None
    """The last offset of that batch."""
    corrupt: list[Corrupt] = field(default_factory=list)
    """Batches below ``trusted_until`` that are in their place and whose content is not sound. The walk goes on after
    them."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    position: int
    header: BatchHeader
    problem: str


def walk(
    disk: Disk,
    path: str,
    walked: Walk,
    *,
    deep: bool,
    has_holes: bool,
    trusted_until: int = 0,
    until: int | None = None,
) -> Iterator[WalkedBatch]:
    """The sound batches of a file that begins with offset ``walked.end_offset``, or later if compaction left holes.

    Without ``has_holes``, every batch must begin with the offset after the batch before it. No checksum covers a base
    offset.

    Below ``trusted_until``, the recovery point, a start does not read the content of batches, so a batch with unsound
    content stays in the log. Above it the log ends before the first unsound batch. ``until``: the offset at which the
    walk ends, if a broker is running.
    """
    with contextlib.closing(disk.open(path)) as file:
        size = walked.size_bytes = file.size()
        step = _DEEP_STEP_BYTES if deep else _STEP_BYTES
        chunk, chunk_at = memoryview(b""), 0
        while walked.position < size and (until is None or walked.end_offset < until):
            at = walked.position
            if at - chunk_at + HEADER_SIZE > len(chunk):
                chunk, chunk_at = memoryview(file.read(at, min(step, size - at))), at
            try:
                header = parse_header(chunk, at - chunk_at)
                _check_place(header, walked, size, has_holes)
                data: memoryview | None = None
                if deep or header.is_control:
                    if at - chunk_at + header.size_bytes > len(chunk):
                        wanted = max(step, header.size_bytes)
                        chunk, chunk_at = memoryview(file.read(at, min(wanted, size - at))), at
                    data = chunk[at - chunk_at : at - chunk_at + header.size_bytes]
                    if not _is_content_sound(walked, at, header, data, trusted_until):
                        continue
            except DecodeError as error:
                walked.trouble = f"position {at}: {_without_position(str(error), at)}"
                _resume(file, walked, size)
                return
            yield WalkedBatch(at, header, data)
            _step(walked, header)


def _step(walked: Walk, header: BatchHeader) -> None:
    walked.position += header.size_bytes
    walked.end_offset = header.next_offset
    walked.batches += 1
    walked.records += header.record_count


def _is_content_sound(walked: Walk, at: int, header: BatchHeader, data: memoryview, trusted_until: int) -> bool:
    try:
        _check_content(header, data)
    except DecodeError as error:
        if header.base_offset >= trusted_until:
            raise
        walked.corrupt.append(Corrupt(at, header, str(error)))
        _step(walked, header)
        return False
    return True


def _check_place(header: BatchHeader, walked: Walk, size: int, has_holes: bool) -> None:
    if header.base_offset < walked.end_offset or (header.base_offset > walked.end_offset and not has_holes):
        raise DecodeError(f"a batch with offset {header.base_offset}; the offset before it is {walked.end_offset - 1}")
    if walked.position + header.size_bytes > size:
        raise DecodeError(f"a batch of {header.size_bytes} bytes; the file has {size - walked.position} more")


def _check_content(header: BatchHeader, data: memoryview) -> None:
    if not verify_crc(data, 0, header):
        raise DecodeError(f"the checksum of batch {header.base_offset} to {header.last_offset} is wrong")
    count, last = 0, header.base_offset - 1
    for record in iterate_records(data, 0):
        if not last < record.offset <= header.last_offset:
            raise DecodeError(f"record {count} of batch {header.base_offset} has offset {record.offset}")
        count, last = count + 1, record.offset
    if count != header.record_count:
        raise DecodeError(f"batch {header.base_offset} has {count} records; its header says {header.record_count}")


def _without_position(text: str, position: int) -> str:
    """The text of an error without the position in it, which is a position in the bytes that were read, not in the
    file."""
    return f"no batch begins here ({text.split(' at position ')[0]})" if " at position " in text else text


def _resume(file: File, walked: Walk, size: int) -> None:
    """Search for the next sound batch: it shows whether this is damage or a torn end, and how much would be lost."""
    start = walked.position + 1
    data = file.read(start, min(_SEARCH_BYTES, size - start))
    at = data.find(b"\x02", MAGIC_POSITION)
    while at >= 0:
        within = at - MAGIC_POSITION
        try:
            header = parse_header(data, within)
        except DecodeError:
            pass
        else:
            if header.base_offset >= walked.end_offset and verify_crc(data, within, header):
                walked.resumes_at, walked.last_offset_seen = header.base_offset, header.last_offset
                return
        at = data.find(b"\x02", at + 1)
