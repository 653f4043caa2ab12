"""A look into a client's batch, before it may enter a log: are these the records that its header promises?

It also finds what some topics ask for: the records without a key, the oldest timestamp, and the same records under the
topic's own codec. For most batches that is done within microseconds, but a compressed batch of 1 MB can hold a hundred
times as much, and millions of records. So the look is begun on the event loop, with a limited effort, and finished on a
worker if more is needed. What is found does not depend on where.

The law: at most ``unpacked_size_max`` bytes are unpacked, and nothing that is found is believed for other bytes.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError
from semel.log.config import LogConfig
from semel.types import INT64_MAX
from semel.wire.compression import Codec, compress, decompressed
from semel.wire.records import (
    CODEC_MASK,
    DECOMPRESSED_SIZE_BYTES_MAX,
    HEADER_SIZE,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    RecordCheck,
    TimestampType,
    is_sound_single,
    iterate_records,
    producer_fault,
)

EFFORT_AT_ONCE_MAX: Final = 16_384
"""What the event loop gives to one request, in records that are walked: some 10 ms."""

BRIEF_BYTES_MAX: Final = 64 * 1024
"""The look into a batch that is not compressed and no larger takes the event loop a few milliseconds at most."""

# How much a batch may hold unpacked: a hundred times its size where that is much, and no more than readers unpack.
_EXPANSION_MAX: Final = 100
_EXPANSION_FLOOR_BYTES: Final = 64 * 1024 * 1024

# On the event loop, many small requests may follow each other: what they take together goes by what they sent.
_AT_ONCE_EXPANSION_MAX: Final = 16
_AT_ONCE_FLOOR_BYTES: Final = 64 * 1024
_AT_ONCE_BYTES_MAX: Final = 2 * 1024 * 1024
_AT_ONCE_EFFORT_FLOOR: Final = 256
_BYTES_FOR_ONE_RECORD: Final = 16
_UNPACKED_BYTES_FOR_ONE_RECORD: Final = 256
_RECOMPRESSED_AT_ONCE_MAX: Final = 64 * 1024

_NONE_IS_OLD: Final = (INT64_MAX, 0)


class BatchCheck:
    """``begin`` on the event loop, ``keep`` if it ``is_long``, ``finish`` anywhere; then the findings are there."""

    __slots__ = (
        "_block",
        "_config",
        "_header",
        "_records",
        "_walk",
        "codec",
        "effort",
        "fault",
        "is_long",
        "is_over",
        "keyless",
        "keyless_count",
        "oldest",
        "recompressed",
    )

    def __init__(self, records: memoryview, config: LogConfig) -> None:
        self._records = records
        self._config = config
        self._header: BatchHeader | None = None
        self._block: bytes | bytearray = b""
        self._walk: RecordCheck | None = None
        self.is_over = False
        self.is_long = True
        """Whether what is left to do may take longer than the event loop can be kept."""
        self.effort = 0
        self.fault: DecodeError | None = None
        """Why these are no records; ``BadRecord`` where it is known in which."""
        self.keyless: list[int] = []
        """The first records without a key; ``keyless_count`` counts all."""
        self.keyless_count = 0
        self.oldest: tuple[int, int] | None = None
        """Timestamp and number of the oldest record, where the topic's settings ask for it."""
        self.recompressed: bytes | None = None
        """The records under ``codec``, where the topic wants another than they came with."""
        self.codec: Codec | None = None

    def begin(self, effort_max: int = EFFORT_AT_ONCE_MAX) -> None:
        """Do what can be done at once. Nothing long is left for a header that will be refused, either."""
        self.is_long = not self._begin(effort_max)

    def _begin(self, effort_max: int) -> bool:
        records = self._records
        if len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC_V2:
            return True
        header = BatchHeader.read(records)
        size = len(records)
        if header.size_bytes != size or producer_fault(header) is not None:
            return True
        try:
            if header.compression is Codec.NONE:
                self._unpacked(header, bytes(records[HEADER_SIZE:]))
            else:
                effort_max = min(effort_max, _AT_ONCE_EFFORT_FLOOR + size // _BYTES_FOR_ONE_RECORD)
                size_max = min(_AT_ONCE_BYTES_MAX, max(_AT_ONCE_FLOOR_BYTES, size * _AT_ONCE_EXPANSION_MAX))
                try:
                    self._unpacked(header, decompressed(header.compression, records[HEADER_SIZE:], size_max=size_max))
                except DecodeError:
                    return False  # More than that, or not sound: where there is time, it is found out which.
                self.effort += len(self._block) // _UNPACKED_BYTES_FOR_ONE_RECORD
            assert self._walk is not None
            is_checked = self._walk.advance(effort_max)
            self.effort += self._walk.effort
            if not is_checked or not self._is_rest_brief(header, effort_max):
                return False
        except DecodeError as error:
            self._end(error)
            return True
        self.finish()
        return True

    def keep(self) -> memoryview:
        """The records in a buffer of their own, for a check that is finished later."""
        self._records = memoryview(bytearray(self._records))
        return self._records

    def finish(self) -> None:
        """Find out what is left. May take seconds for what is malicious."""
        if self.is_over:
            return
        records = self._records
        try:
            if self._walk is None:
                header = BatchHeader.read(records)
                block = decompressed(
                    header.compression, records[HEADER_SIZE:], size_max=unpacked_size_max(header.size_bytes)
                )
                self._unpacked(header, block)
            assert self._walk is not None
            assert self._header is not None
            while not self._walk.advance(EFFORT_AT_ONCE_MAX):
                pass
            self._look_further(self._header)
        except DecodeError as error:
            self._end(error)
        else:
            self._end(None)

    def answers(self, config: LogConfig) -> bool:
        """Whether all was found that a topic with these settings asks for. They may have changed since it was begun."""
        return self.fault is not None or config is self._config or not (_wants_oldest(config) and self.oldest is None)

    def _unpacked(self, header: BatchHeader, block: bytes | bytearray) -> None:
        self._header = header
        self._block = block
        self._walk = RecordCheck(block, header.record_count)

    def _is_rest_brief(self, header: BatchHeader, effort_max: int) -> bool:
        if _wants_oldest(self._config) and header.record_count > effort_max:
            return False
        return _codec_wanted(header, self._config) is None or len(self._block) <= min(
            _RECOMPRESSED_AT_ONCE_MAX, len(self._records) * 4
        )

    def _look_further(self, header: BatchHeader) -> None:
        config = self._config
        if _wants_oldest(config):
            records = iterate_records(self._records, size_max=unpacked_size_max(header.size_bytes))
            self.oldest = min(
                (
                    (record.timestamp, number)
                    for number, record in enumerate(records)
                    if record.timestamp != NO_TIMESTAMP  # Kafka takes those at any time.
                ),
                default=_NONE_IS_OLD,
            )
        self.codec = _codec_wanted(header, config)
        if self.codec is not None:
            self.recompressed = compress(self.codec, self._block, level=_level(self.codec, config))

    def _end(self, fault: DecodeError | None) -> None:
        if self._walk is not None:
            self.keyless, self.keyless_count = self._walk.keyless, self._walk.keyless_count
        self.fault = fault
        self.is_over = True
        self.is_long = False
        self._walk, self._block = None, b""


def is_plainly_sound(records: memoryview, header: BatchHeader) -> bool:
    """The quick yes about a batch that is not compressed, where no more is asked. A no means: make a ``BatchCheck``."""
    if header.attributes & CODEC_MASK:
        return False
    count = header.record_count
    if count == 1 and is_sound_single(records[HEADER_SIZE:]):
        return True
    try:
        return RecordCheck(bytes(records[HEADER_SIZE:]), count).advance(count)
    except DecodeError:
        return False


def unpacked_size_max(size_bytes: int) -> int:
    """How many bytes of records a batch of this size may hold."""
    return min(DECOMPRESSED_SIZE_BYTES_MAX, max(_EXPANSION_FLOOR_BYTES, size_bytes * _EXPANSION_MAX))


def _wants_oldest(config: LogConfig) -> bool:
    return (
        config.message_timestamp_before_max_ms < INT64_MAX
        and config.message_timestamp_type is TimestampType.CREATE_TIME
    )


def _codec_wanted(header: BatchHeader, config: LogConfig) -> Codec | None:
    codec = config.compression_type
    return None if codec is None or codec == header.compression else codec


def _level(codec: Codec, config: LogConfig) -> int | None:
    match codec:
        case Codec.GZIP:
            return None if config.compression_gzip_level < 0 else config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return None
