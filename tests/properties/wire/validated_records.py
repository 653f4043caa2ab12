"""The plain way to check the records of a producer's batch: one after the other."""

from __future__ import annotations

from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.records import iterate_records, parse_header
from semel.wire.records.reader import DECOMPRESSED_SIZE_BYTES_MAX


def validate_records(
    buffer: Buffer,
    position: int = 0,
    *,
    key_required: bool = False,
    size_max: int = DECOMPRESSED_SIZE_BYTES_MAX,
) -> None:
    """Raise ``DecodeError`` unless these are the records of a producer: offsets without gaps, and keys where required.

    A topic that is compacted requires keys: a record without one could never be superseded, nor kept for its key.
    """
    header = parse_header(buffer, position)
    expected = header.base_offset
    for record in iterate_records(buffer, position, size_max=size_max):
        if record.offset != expected:
            raise DecodeError(f"record {expected - header.base_offset} has offset {record.offset}; expected {expected}")
        if key_required and record.key is None:
            raise DecodeError(f"record {expected - header.base_offset} has no key; a compacted topic requires one")
        expected += 1
    if expected != header.next_offset:
        raise DecodeError(
            f"{header.record_count} records for last offset delta {header.last_offset_delta}; "
            f"expected {header.last_offset_delta + 1}"
        )
