"""The fixed part of a record batch: read in place, checked, patched in place.

    position  field                         covered by the CRC
    0         base_offset             8     no: the leader gives it out
    8         batch_length            4     no: counts from position 12 on
    12        partition_leader_epoch  4     no: the leader writes it
    16        magic                   1     no: read before anything else is believed
    17        crc                     4     -
    21        attributes              2     yes, and all that follows
    23        last_offset_delta       4
    27        base_timestamp          8
    35        max_timestamp           8
    43        producer_id             8
    51        producer_epoch          2
    53        base_sequence           4
    57        record_count            4
    61        the records, compressed as one block if the attributes say so

The law: a ``BatchHeader`` from ``parse_header`` can be walked with. Its size is at least that of a header, its last
offset is never below its base offset, so that a walk from batch to batch always moves forward, and it has no more
records than offsets. Whether the bytes behind it are sound is what ``verify_crc`` answers.

Two rules about ranges stand here and nowhere else: ``is_walkable`` for a batch in a log, and ``producer_fault`` for one
that a producer sends, which must be more.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from semel.errors import DecodeError, ErrorCode
from semel.types import INT32_MAX, Buffer
from semel.wire.compression import Codec, UnsupportedCodec
from semel.wire.crc import crc32c

MAGIC_V2: Final = 2

BATCH_LENGTH_POSITION: Final = 8
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
LAST_OFFSET_DELTA_POSITION: Final = 23
BASE_TIMESTAMP_POSITION: Final = 27
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_ID_POSITION: Final = 43
PRODUCER_EPOCH_POSITION: Final = 51
BASE_SEQUENCE_POSITION: Final = 53
RECORD_COUNT_POSITION: Final = 57
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = Struct(">qiibIhiqqqhii")
_BATCH_LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD
_OFFSET: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")


class UnsupportedMagic(DecodeError):
    """A batch of another message format: 0 and 1 are Kafka's before 0.11, anything else is none of Kafka's."""

    def __init__(self, magic: int, position: int) -> None:
        super().__init__(f"message format {magic} at position {position}; only format {MAGIC_V2} is supported")
        self.magic = magic


class TimestampType(IntEnum):
    """Who set the timestamps of a batch: its producer, or the leader that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of one record batch, field by field as it is on the wire, and what follows from it."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def read(cls, buffer: Buffer, position: int = 0) -> BatchHeader:
        """The fields as they stand there, unchecked. The buffer must hold a header; ``parse_header`` sees to that."""
        return tuple.__new__(cls, HEADER.unpack_from(buffer, position))

    def placed(self, base_offset: int, partition_leader_epoch: int) -> BatchHeader:
        """The header of the same batch once it stands in a log."""
        return tuple.__new__(BatchHeader, (base_offset, self[1], partition_leader_epoch, *self[3:]))

    @property
    def size_bytes(self) -> int:
        """The whole batch, with what ``batch_length`` does not count."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """The codec's number as it stands there, known or not."""
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Codec:
        """The codec. A number that Kafka has given to none raises ``UnsupportedCodec``."""
        try:
            return _CODECS[self.attributes & CODEC_MASK]
        except IndexError:
            raise UnsupportedCodec(self.attributes & CODEC_MASK) from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; after 2**31 - 1 comes 0. ``NO_SEQUENCE`` where the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop this batch's tombstones and markers; it then stands where the base timestamp was."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


_CODECS: Final = tuple(Codec)
_CODEC_MAX: Final = max(Codec)
_NOT_FROM_PRODUCERS: Final = CONTROL_BIT | DELETE_HORIZON_BIT


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of a batch of this message format, and at least as long as a header. Nothing else is checked.

    Raises ``UnsupportedMagic`` for other message formats, also where such a message is shorter than our header.
    """
    if position < 0 or len(buffer) - position < HEADER_SIZE:
        raise _too_short(buffer, position)
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    check_format(header, position)
    return header


def check_format(header: BatchHeader, position: int = 0) -> None:
    """Raise like ``read_header`` for a header that was read unchecked."""
    if header.magic != MAGIC_V2:
        raise UnsupportedMagic(header.magic, position)
    if header.batch_length < _BATCH_LENGTH_MIN:
        raise DecodeError(
            f"batch at position {position} has length {header.batch_length}; the least is {_BATCH_LENGTH_MIN}"
        )


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch that starts at ``position``. The batch itself may be cut off behind it.

    Raises like ``read_header``, and ``DecodeError`` for one that cannot be walked with.
    """
    header = read_header(buffer, position)
    if not is_walkable(header):
        raise DecodeError(f"batch at position {position} has {range_of(header)}")
    return header


def is_walkable(header: BatchHeader) -> bool:
    """Whether a batch of a log may have these counts. Compaction leaves fewer records than offsets, or none."""
    return 0 <= header.record_count <= header.last_offset_delta + 1 and header.last_offset_delta >= 0


def range_of(header: BatchHeader) -> str:
    """The counts of a header that is not walkable, and the rule."""
    return (
        f"last offset delta {header.last_offset_delta} and record count {header.record_count}; the delta is at least 0 "
        "and the count is 0 to the delta + 1"
    )


def producer_fault(header: BatchHeader) -> tuple[ErrorCode, str] | None:
    """Why no producer may send a batch with this header, and the code that it is refused with. None if it may.

    Sequences wrap, so the last one follows from the first and the count. What stands in the place of epoch and sequence
    where there is no producer id is not looked at: clients disagree (some write 0), and no reader asks. The same goes
    for the attributes that Kafka has given no meaning, and for the leader epoch.
    """
    if (
        header.record_count == header.last_offset_delta + 1
        and header.record_count >= 1
        and header.base_offset == 0
        and not header.attributes & _NOT_FROM_PRODUCERS
        and header.attributes & CODEC_MASK <= _CODEC_MAX
        and header.base_timestamp >= NO_TIMESTAMP <= header.max_timestamp
        and (
            header.base_sequence >= 0 <= header.producer_epoch
            if header.producer_id >= 0
            else header.producer_id == NO_PRODUCER_ID and not header.attributes & TRANSACTIONAL_BIT
        )
    ):
        return None
    return _described_fault(header)


def _described_fault(header: BatchHeader) -> tuple[ErrorCode, str]:
    code, text = ErrorCode.INVALID_RECORD, ""
    if header.base_offset != 0:
        text = f"base offset {header.base_offset}; a producer numbers the records of a batch from 0"
    elif header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        text = (
            f"{header.record_count} records and last offset delta {header.last_offset_delta}; a producer's batch "
            "has at least one record, and numbers its records from 0 without gaps"
        )
    elif header.attributes & CONTROL_BIT:
        text = "the control bit; only the transaction coordinator writes control batches"
    elif header.attributes & DELETE_HORIZON_BIT:
        text = "the delete horizon bit; only compaction sets it"
    elif header.producer_id < NO_PRODUCER_ID or (
        header.has_producer_id and not header.base_sequence >= 0 <= header.producer_epoch
    ):
        text = (
            f"producer {header.producer_id}, epoch {header.producer_epoch} and base sequence {header.base_sequence}; "
            "all three start at 0, and no producer is -1"
        )
    elif header.is_transactional and not header.has_producer_id:
        text = "the transactional bit and no producer id"
    elif header.codec_id > _CODEC_MAX:
        code, text = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(UnsupportedCodec(header.codec_id))
    else:
        code = ErrorCode.INVALID_TIMESTAMP
        text = (
            f"base timestamp {header.base_timestamp} and max timestamp {header.max_timestamp}; "
            "a timestamp is at least 0, and none is -1"
        )
    return code, text


def iterate_headers(buffer: Buffer, *, allow_partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch in a buffer of batches back to back.

    A last batch that is cut off raises ``DecodeError``. With ``allow_partial_tail`` it ends the iteration instead: a
    fetch response is cut at a number of bytes, not at a batch.
    """
    position, end = 0, len(buffer)
    while position < end:
        if end - position < HEADER_SIZE and allow_partial_tail and not _is_old_format(buffer, position):
            return
        header = parse_header(buffer, position)
        size_bytes = header.batch_length + LOG_OVERHEAD
        if size_bytes > end - position:
            if allow_partial_tail:
                return
            raise DecodeError(
                f"batch at position {position} (base offset {header.base_offset}) is {size_bytes} bytes long; "
                f"{end - position} are left"
            )
        yield position, header
        position += size_bytes


def verify_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is whole and its checksum is the one in its header."""
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end]) == header.crc


def patch_offset_and_epoch(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write where the batch now stands in the log. The CRC does not cover these fields and stays true."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def patch_log_append_time(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Make ``timestamp`` the timestamp of every record in the batch, and the CRC true again."""
    (batch_length,) = _LENGTH.unpack_from(buffer, position + BATCH_LENGTH_POSITION)
    end = position + batch_length + LOG_OVERHEAD
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes | TIMESTAMP_TYPE_BIT)
    _TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, timestamp)
    crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)


def patch_codec(batch: bytearray | memoryview, codec: Codec) -> None:
    """Make the header true again after the records behind it were compressed again: length, codec, CRC.

    The batch is the whole buffer, from its header to its end.
    """
    _LENGTH.pack_into(batch, BATCH_LENGTH_POSITION, len(batch) - LOG_OVERHEAD)
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes & ~CODEC_MASK | codec)
    _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))


def _too_short(buffer: Buffer, position: int) -> DecodeError:
    if _is_old_format(buffer, position):
        return UnsupportedMagic(buffer[position + MAGIC_POSITION], position)
    return DecodeError(
        f"{max(0, len(buffer) - position)} bytes at position {position}; a batch header takes {HEADER_SIZE}"
    )


def _is_old_format(buffer: Buffer, position: int) -> bool:
    """The magic stands at the same place in all formats, and a message of format 0 can be as short as 26 bytes."""
    magic_position = position + MAGIC_POSITION
    return position >= 0 and magic_position < len(buffer) and buffer[magic_position] < MAGIC_V2
