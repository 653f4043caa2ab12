"""The ``.snapshot`` file: the producer state of a partition at the offset in the file's name.

    version   int16   1
    crc       uint32  CRC32C of all that follows
    count     int32
    entries           46 bytes each: producer id, producer epoch, last sequence, last offset, offset delta,
                      timestamp, coordinator epoch, first offset of the open transaction

The layout is Kafka's. It holds the last batch of each producer; an absent value is -1 (0 for the offset delta). The
law: ``decode`` returns exactly what was encoded, or raises. A snapshot is derived from the log, so a damaged one is not
used in part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import starmap
from struct import Struct
from typing import Final

from semel.errors import DecodeError
from semel.wire.crc import crc32c

VERSION: Final = 1

_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_ENTRIES_POSITION: Final = _HEADER.size + _COUNT.size


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """The state of one producer. ``last_offset`` is ``None`` if only markers of its current epoch are known."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_offset: int | None
    offset_delta: int
    timestamp: int
    coordinator_epoch: int | None
    transaction_first_offset: int | None


Fields = tuple[int, int, int, int, int, int, int, int]
"""One entry in the form of the file: an absent value is -1."""


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    return encode_fields(
        (
            entry.producer_id,
            entry.producer_epoch,
            _number(entry.last_sequence),
            _number(entry.last_offset),
            entry.offset_delta,
            entry.timestamp,
            _number(entry.coordinator_epoch),
            _number(entry.transaction_first_offset),
        )
        for entry in entries
    )


def encode_fields(entries: Iterable[Fields]) -> bytes:
    """Like ``encode``, for entries as tuples: no object is made for each of very many producers."""
    packed = list(starmap(_ENTRY.pack, entries))
    body = b"".join((_COUNT.pack(len(packed)), *packed))
    return _HEADER.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    """The entries of a snapshot. Raises ``DecodeError`` if it is empty, torn, corrupt or of another version."""
    if len(data) < _ENTRIES_POSITION:
        raise DecodeError(f"a producer snapshot of {len(data)} bytes; the shortest has {_ENTRIES_POSITION}")
    version, crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DecodeError(f"producer snapshot version {version}; only version {VERSION} is known")
    computed = crc32c(memoryview(data)[_HEADER.size :])
    if crc != computed:
        raise DecodeError(
            f"a producer snapshot of {len(data)} bytes says CRC {crc:#010x}; its content has {computed:#010x}"
        )
    (count,) = _COUNT.unpack_from(data, _HEADER.size)
    if count < 0 or len(data) != _ENTRIES_POSITION + count * _ENTRY.size:
        raise DecodeError(
            f"a producer snapshot of {len(data)} bytes says it holds {count} entries of {_ENTRY.size} bytes each"
        )
    return [
        ProducerEntry(
            producer_id,
            producer_epoch,
            _present(last_sequence),
            _present(last_offset),
            offset_delta,
            timestamp,
            _present(coordinator_epoch),
            _present(transaction_first_offset),
        )
        for (
            producer_id,
            producer_epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp,
            coordinator_epoch,
            transaction_first_offset,
        ) in _ENTRY.iter_unpack(memoryview(data)[_ENTRIES_POSITION:])
    ]


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _present(number: int) -> int | None:
    return None if number < 0 else number
