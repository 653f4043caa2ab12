"""The header of a record batch: read, validated and patched in place.

    position  field                         covered by the CRC
    0         base_offset             8     no: the leader assigns it
    8         batch_length            4     no: counts from position 12 on
    12        partition_leader_epoch  4     no: the leader writes it
    16        magic                   1     no: read before any other field is trusted
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

The law: with a ``BatchHeader`` from ``parse_header`` the next batch can be found. Its size is at least that of a
header, its last offset is never below its base offset, so that an iteration over batches always moves forward, and it
has no more records than offsets. ``verify_crc`` checks the bytes after it.

The rules about ranges are only here: ``is_walkable`` for a batch in a log, and the stricter ``producer_fault`` for a
batch from a producer.
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
    """A batch of another message format: 0 and 1 are Kafka's formats before 0.11; others do not exist in Kafka."""

    def __init__(self, magic: int, position: int) -> None:
        super().__init__(f"message format {magic} at position {position}; only format {MAGIC_V2} is supported")
        self.magic = magic


class TimestampType(IntEnum):
    """Whether the timestamps of a batch were set by the producer or by the leader that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of one record batch: its fields in the order of the wire, and properties derived from them."""

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
        """Return the fields, unchecked. The buffer must be long enough; ``parse_header`` checks that and the fields."""
        return tuple.__new__(cls, HEADER.unpack_from(buffer, position))

    def placed(self, base_offset: int, partition_leader_epoch: int) -> BatchHeader:
        """Return the header of the same batch after it was appended to a log, with this offset and leader epoch."""
        return tuple.__new__(BatchHeader, (base_offset, self[1], partition_leader_epoch, *self[3:]))

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, including the 12 bytes that ``batch_length`` does not count."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """The number of the codec, which need not be a known one."""
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Codec:
        """The codec. Raises ``UnsupportedCodec`` if Kafka does not define its number."""
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
        """The sequence of the last record; after 2**31 - 1 comes 0. ``NO_SEQUENCE`` if the batch has no sequences."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time at which compaction may remove the tombstones and markers of this batch; ``None`` if it is not set.

        It is stored in the field of the base timestamp.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


_CODECS: Final = tuple(Codec)
_CODEC_MAX: Final = max(Codec)
_NOT_FROM_PRODUCERS: Final = CONTROL_BIT | DELETE_HORIZON_BIT


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of a batch. Only its message format and the minimum of its length are checked.

    Raises ``UnsupportedMagic`` for other message formats, also if such a message is shorter than a header of format 2.
    """
    if position < 0 or len(buffer) - position < HEADER_SIZE:
        raise _too_short(buffer, position)
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    check_format(header, position)
    return header


def check_format(header: BatchHeader, position: int = 0) -> None:
    """Check a header that was read unchecked. Raises the same errors as ``read_header``."""
    if header.magic != MAGIC_V2:
        raise UnsupportedMagic(header.magic, position)
    if header.batch_length < _BATCH_LENGTH_MIN:
        raise DecodeError(
            f"batch at position {position} has length {header.batch_length}; the least is {_BATCH_LENGTH_MIN}"
        )


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at ``position``. The batch may be cut off after its header.

    Raises the same errors as ``read_header``, and ``DecodeError`` if the header is not ``is_walkable``.
    """
    header = read_header(buffer, position)
    if not is_walkable(header):
        raise DecodeError(f"batch at position {position} has {range_of(header)}")
    return header


def is_walkable(header: BatchHeader) -> bool:
    """Whether a batch in a log may have these counts.

    After compaction it may have fewer records than offsets, or none.
    """
    return 0 <= header.record_count <= header.last_offset_delta + 1 and header.last_offset_delta >= 0


def range_of(header: BatchHeader) -> str:
    """Return, for an error message, the counts of a header that is not walkable, and the rule."""
    return (
        f"last offset delta {header.last_offset_delta} and record count {header.record_count}; the delta is at least 0 "
        "and the count is 0 to the delta + 1"
    )


def producer_fault(header: BatchHeader) -> tuple[ErrorCode, str] | None:
    """Return the error code and the reason for which a producer's batch with this header is refused, or ``None``.

    Sequences wrap, so the last one follows from the first and the count. Without a producer id, epoch and sequence are
    not checked: clients differ (some write 0), and no reader uses them. Attributes that Kafka does not define and the
    leader epoch are not checked either.
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
    """Yield position and header of every batch in a buffer of consecutive batches.

    If the last batch is cut off, raises ``DecodeError``, or with ``allow_partial_tail`` ends the iteration: a Fetch
    response is cut at a number of bytes, not at a batch.
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
    """Whether the batch is complete and its checksum equals the one in its header."""
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end]) == header.crc


def patch_offset_and_epoch(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the batch's offset in the log and the leader epoch. The CRC does not cover these fields and stays valid."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def patch_log_append_time(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Make ``timestamp`` the timestamp of every record in the batch, and update the CRC."""
    (batch_length,) = _LENGTH.unpack_from(buffer, position + BATCH_LENGTH_POSITION)
    end = position + batch_length + LOG_OVERHEAD
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes | TIMESTAMP_TYPE_BIT)
    _TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, timestamp)
    crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)


def patch_max_timestamp(batch: bytearray | memoryview, timestamp: int) -> None:
    """Write the highest timestamp of the batch's records, and update the CRC. The batch is the whole buffer."""
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_POSITION, timestamp)
    _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))


def patch_codec(batch: bytearray | memoryview, codec: Codec) -> None:
    """Update length, codec and CRC in the header, after the records were compressed with another codec.

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
    """Whether a message of format 0 or 1 is at this position.

    The magic is at the same position in all formats, and a message of format 0 can be as short as 26 bytes.
    """
    magic_position = position + MAGIC_POSITION
    return position >= 0 and magic_position < len(buffer) and buffer[magic_position] < MAGIC_V2
