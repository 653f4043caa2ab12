"""The check of the records in a client's batch: they must be the records that the batch header describes.

The check also finds the highest timestamp, because some clients leave it out of the header, and what some topics
require: records without a key, the oldest timestamp, and the same records compressed with the topic's codec. Most
batches take microseconds. But a compressed batch of 1 MB can hold a hundred times as many bytes, and millions of
records. So the check begins on the event loop, with a limited effort, and is finished on a worker if it needs more. The
result does not depend on where it runs.

The law: at most ``unpacked_size_max`` bytes are decompressed, a finished check holds none of them, and a result is
used only for the bytes it was computed from.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError
from semel.log.config import LogConfig
from semel.types import INT64_MAX
from semel.wire.compression import Codec, compress, decompressed
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    DECOMPRESSED_SIZE_BYTES_MAX,
    HEADER_SIZE,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    RecordCheck,
    TimestampType,
    is_sound_single,
    producer_fault,
)

EFFORT_AT_ONCE_MAX: Final = 16_384
"""The largest effort that the event loop spends on one request, as a number of records to walk: about 10 ms."""

BRIEF_BYTES_MAX: Final = 64 * 1024
"""The largest uncompressed batch that is checked during its append: it takes the event loop a few milliseconds."""

# The limit of a batch's decompressed size: a hundred times its size, but not less than the floor and not more than the
# usual maximum. A very large batch may exceed that maximum: up to a few times its size, and up to what readers
# decompress. Batches of real producers decompress to at most fifty times their size.
_EXPANSION_MAX: Final = 100
_UNPACKED_FLOOR_BYTES: Final = 16 * 1024 * 1024
_UNPACKED_USUAL_BYTES_MAX: Final = 64 * 1024 * 1024
_LARGE_EXPANSION_MAX: Final = 4

# The limits of a check on the event loop. Many small requests may follow each other, so the effort that a batch gets
# is proportional to its size.
_AT_ONCE_EXPANSION_MAX: Final = 16
_AT_ONCE_FLOOR_BYTES: Final = 64 * 1024
_AT_ONCE_BYTES_MAX: Final = 2 * 1024 * 1024
_AT_ONCE_EFFORT_FLOOR: Final = 256
_BYTES_FOR_ONE_RECORD: Final = 16
_UNPACKED_BYTES_FOR_ONE_RECORD: Final = 256
_RECOMPRESSED_AT_ONCE_MAX: Final = 64 * 1024


class BatchCheck:
    """The check of the records of one batch.

    ``begin`` runs on the event loop. If the check ``is_long`` after that, ``keep`` copies the records, and ``finish``
    may run on a worker. The attributes with the findings are set once the check ``is_over``.
    """

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
        "newest",
        "oldest",
        "recompressed",
        "recompressed_size",
    )

    def __init__(self, records: memoryview, config: LogConfig, header: BatchHeader | None = None) -> None:
        """``header``: the header of these records, if it was parsed before."""
        self._records = records
        self._config = config
        self._header = header
        self._block: bytes | bytearray = b""
        self._walk: RecordCheck | None = None
        self.is_over = False
        self.is_long = True
        """Whether the rest of the check may take too long for the event loop."""
        self.effort = 0
        self.fault: DecodeError | None = None
        """Why the records are invalid, or ``None``. A ``BadRecord`` if it is known which record is invalid."""
        self.keyless: list[int] = []
        """The numbers of the first records without a key; ``keyless_count`` counts all of them."""
        self.keyless_count = 0
        self.newest: int | None = None
        """The highest timestamp of the records, or ``None`` if the records are invalid."""
        self.oldest: tuple[int, int] | None = None
        """The timestamp and number of the oldest record, if the topic's settings limit the age of records."""
        self.recompressed: bytes | None = None
        """The records compressed with ``codec``, if the topic requires a different codec from the batch's and the
        result is not too large."""
        self.recompressed_size = 0
        self.codec: Codec | None = None

    def begin(self, effort_max: int = EFFORT_AT_ONCE_MAX) -> None:
        """Do as much of the check as ``effort_max`` allows, and set ``is_long``.

        The records of a batch whose header ``admit`` will refuse are not checked.
        """
        self.is_long = not self._begin(effort_max)

    def _begin(self, effort_max: int) -> bool:
        records = self._records
        if len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC_V2:
            return True
        header = self._header or BatchHeader.read(records)
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
                    return False  # Larger than ``size_max``, or invalid: ``finish`` finds out which.
                self.effort += len(self._block) // _UNPACKED_BYTES_FOR_ONE_RECORD
            assert self._walk is not None
            is_checked = self._walk.advance(effort_max)
            walked = self._walk.effort
            self.effort += walked
            if is_checked and not self._finds_newest(header):
                is_checked = self._walk.advance(effort_max - walked) and self._finds_newest(header)
                self.effort += self._walk.effort
            if not is_checked or not self._is_rest_brief(header):
                return False
        except DecodeError as error:
            self._end(error)
            return True
        self.finish()
        return True

    @property
    def unpacked_bytes(self) -> int:
        """The memory that the check holds besides the records."""
        return len(self._block)

    @property
    def unpacked_bytes_max(self) -> int:
        """The largest size that the records may have once decompressed."""
        size, records = len(self._records), self._records
        if size < HEADER_SIZE or not records[ATTRIBUTES_POSITION + 1] & CODEC_MASK:
            return size
        return unpacked_size_max(size)

    def forget(self) -> None:
        """Free the decompressed records; ``finish`` decompresses them again."""
        self._walk, self._block = None, b""

    def keep(self) -> memoryview:
        """Copy the records into a buffer of their own, for a check that is finished later."""
        self._records = memoryview(bytearray(self._records))
        return self._records

    def finish(self, recompressed_bytes_max: int = INT64_MAX) -> None:
        """Finish the check. It may take seconds for a malicious batch.

        ``recompressed_bytes_max``: the largest recompressed size that is kept. ``max.message.bytes`` limits it further.
        """
        if self.is_over:
            return
        records = self._records
        try:
            if self._walk is None:
                header = self._header or BatchHeader.read(records)
                block = decompressed(
                    header.compression, records[HEADER_SIZE:], size_max=unpacked_size_max(header.size_bytes)
                )
                self._unpacked(header, block)
            assert self._walk is not None
            assert self._header is not None
            while not (self._walk.advance(EFFORT_AT_ONCE_MAX) and self._finds_newest(self._header)):
                pass
            self._recompress(self._header, recompressed_bytes_max)
        except DecodeError as error:
            self._end(error)
        else:
            self._end(None)

    def answers(self, config: LogConfig) -> bool:
        """Whether the check covers what these settings require. They may have changed since it was begun."""
        return self.fault is not None or config is self._config or not (_wants_oldest(config) and self.oldest is None)

    def _unpacked(self, header: BatchHeader, block: bytes | bytearray) -> None:
        self._header = header
        self._block = block
        # Nearly every header has the right highest timestamp, and to confirm it takes less time than to find it.
        limit = None if _wants_oldest(self._config) else limit_of(header)
        self._walk = self._exact_walk(header) if limit is None else RecordCheck(block, header.record_count, limit=limit)

    def _exact_walk(self, header: BatchHeader) -> RecordCheck:
        return RecordCheck(self._block, header.record_count, header.base_timestamp)

    def _finds_newest(self, header: BatchHeader) -> bool:
        """Whether the walk, which is over, confirms the highest timestamp of the header, or has found another.

        Otherwise a new walk begins, which finds it.
        """
        assert self._walk is not None
        if self._walk.is_exact:
            self.newest = self._walk.newest
        elif self._walk.is_limit_exact:
            self.newest = header.max_timestamp
        else:
            self._walk = self._exact_walk(header)
            return False
        return True

    def _is_rest_brief(self, header: BatchHeader) -> bool:
        return _codec_wanted(header, self._config) is None or len(self._block) <= min(
            _RECOMPRESSED_AT_ONCE_MAX, len(self._records) * 4
        )

    def _recompress(self, header: BatchHeader, size_max: int) -> None:
        config, block = self._config, self._block
        self.codec = _codec_wanted(header, config)
        if self.codec is None:
            return
        size_max = min(size_max, config.max_message_bytes - HEADER_SIZE)
        if self.codec is Codec.NONE and len(block) > size_max:
            self.recompressed_size = len(block)
            return
        recompressed = compress(self.codec, block, level=_level(self.codec, config))
        self.recompressed_size = len(recompressed)
        if len(recompressed) <= size_max:
            self.recompressed = recompressed

    def _end(self, fault: DecodeError | None) -> None:
        if self._walk is not None:
            self.keyless, self.keyless_count = self._walk.keyless, self._walk.keyless_count
            if _wants_oldest(self._config):
                self.oldest = self._walk.oldest
        if fault is not None:
            # The traceback would keep the decompressed records and this check in memory until the next garbage
            # collection.
            fault.__traceback__ = fault.__context__ = fault.__cause__ = None
        self.fault = fault
        self.is_over = True
        self.is_long = False
        self._walk, self._block = None, b""


def passes_quick_record_check(records: memoryview, header: BatchHeader) -> bool:
    """Whether a quick check accepts the records of this batch, and the highest timestamp in its header.

    If ``False``, a ``BatchCheck`` decides.

    A compressed batch is never accepted here.
    """
    if header.attributes & CODEC_MASK:
        return False
    count = header.record_count
    limit = limit_of(header)
    if limit is None:
        return False
    if count == 1 and limit == 0 and is_sound_single(records[HEADER_SIZE:]):
        return True
    try:
        block = bytes(records[HEADER_SIZE:])
        walk = RecordCheck(block, count, limit=limit)
        # This effort is enough for all: every record and every record header takes more than one byte.
        return walk.advance(len(block)) and walk.is_limit_exact
    except DecodeError:
        return False


def limit_of(header: BatchHeader) -> int | None:
    """The highest timestamp delta by the header, or ``None`` if the header cannot be right."""
    limit = header.max_timestamp - header.base_timestamp
    return limit if 0 <= limit <= INT64_MAX else None


def unpacked_size_max(size_bytes: int) -> int:
    """The largest size that the records of a batch of this size may have once decompressed."""
    usual = min(max(_UNPACKED_FLOOR_BYTES, size_bytes * _EXPANSION_MAX), _UNPACKED_USUAL_BYTES_MAX)
    return min(max(usual, size_bytes * _LARGE_EXPANSION_MAX), DECOMPRESSED_SIZE_BYTES_MAX)


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
