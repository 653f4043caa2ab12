"""Control records: the transaction coordinator writes one into a partition to commit or abort a transaction there.

They are in a batch of their own whose control bit is set. Only that bit, never their key, makes them control records.
The batch of a marker holds one record, and has the producer id and epoch of the transaction that it ends.

    key    version int16, type int16
    value  version int16, coordinator epoch int32

The law: a higher version may add fields after those of a lower one, and records of an unknown type are skipped, so that
a log written by a newer broker can be read.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.records import NO_LEADER_EPOCH, build_single, iterate_records, parse_header

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0

# A marker decompresses to a few dozen bytes; a control batch that holds more than this is not one.
_SIZE_BYTES_MAX: Final = 2**20


class ControlType(IntEnum):
    """The types of control records that end a transaction. Kafka's metadata quorum has others (2 and up), which Semel
    skips."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """Whether a transaction was committed, and the epoch of the coordinator that wrote the marker.

    A marker with a lower coordinator epoch than an earlier one was written by a coordinator that has been replaced.
    """

    committed: bool
    coordinator_epoch: int


def build_marker_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return the batch that ends a transaction on a partition. It has no sequence: markers are not deduplicated."""
    key, value = encode_marker(marker)
    return build_single(
        key,
        value,
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def parse_marker(buffer: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """Return the marker in the control batch at ``position``, or ``None`` if the batch has none.

    A control batch has no marker if its record is of another type, or if compaction has removed its record and kept the
    empty batch for its producer's epoch.
    """
    header = parse_header(buffer, position)
    if not header.is_control:
        raise DecodeError(f"batch at position {position} (base offset {header.base_offset}) is not a control batch")
    for record in iterate_records(buffer, position, size_max=_SIZE_BYTES_MAX):
        return decode_marker(record.key, record.value)
    return None


def encode_marker(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    """Return key and value of the control record."""
    control_type = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return _KEY.pack(_VERSION, control_type), _VALUE.pack(_VERSION, marker.coordinator_epoch)


def decode_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker | None:
    """Return the marker in a control record, or ``None`` if the record is of another type."""
    key_version, control_type = _unpack(_KEY, key, "key")
    if key_version < 0:
        raise DecodeError(f"control record key of version {key_version}; the lowest is 0")
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    value_version, coordinator_epoch = _unpack(_VALUE, value, "value")
    if value_version < 0:
        raise DecodeError(f"control record value of version {value_version}; the lowest is 0")
    return EndTransactionMarker(committed=control_type == ControlType.COMMIT, coordinator_epoch=coordinator_epoch)


def _unpack(layout: Struct, data: bytes | None, name: str) -> tuple[int, int]:
    if data is None or len(data) < layout.size:
        held = "null" if data is None else f"{len(data)} bytes"
        raise DecodeError(f"control record {name} is {held}; it takes {layout.size} bytes")
    first, second = layout.unpack_from(data)
    return first, second
