"""Validates the records of a batch from a producer, without decoding them.

The law: a block that ``RecordCheck`` accepts can be read by ``RecordBlock`` to its end, with offsets from 0 without
gaps. A block that it refuses has a record that no reader could get past, or a record with more than ``HEADERS_MAX``
headers. Keys and values are skipped, not copied.

A loop over the records in Python takes most of a microsecond for each. But nearly every batch consists of *runs*:
consecutive records of the same size whose fields are at the same positions. Runs are checked by columns
(``run_shape``): lengths must be the same in every record, offset deltas are known beforehand, and timestamp deltas must
end at the position that the shape gives. Shapes are taken from records that were checked one by one, and are kept from
batch to batch. Records that are in no run are checked one by one (``_walk``).

The check can be done in steps of limited effort, which may end even between the headers of a record. So the check of a
large batch begins on the event loop, and goes on in another thread if it takes long.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError
from semel.types import INT64_MAX, Buffer
from semel.wire.records.header import NO_TIMESTAMP
from semel.wire.records.run_shape import RunShape, offset_delta_at
from semel.wire.records.varint import VARINT_BITS, VARINTS, VARLONG_BITS, decode_unsigned, wrap_int64

KEYLESS_NAMED_MAX: Final = 100
"""The maximum number of records without a key whose indexes are kept. The others are only counted."""

HEADERS_MAX: Final = 100_000
"""The maximum number of headers in one record. A reader makes objects of each header, which take a hundred times the
memory of its bytes."""

# Length, attributes, timestamp delta, offset delta, key length, value length, header count: each at least one byte.
_RECORD_SIZE_MIN: Final = 7

# A run is checked in pieces: large enough that the overhead of the calls is small for each record, small enough that
# all columns of a piece stay in the processor's cache. If a piece does not fit the shape, smaller ones are tried.
_RUN_MIN: Final = 4
_PIECE_MIN: Final = 8
_PIECE_MAX: Final = 512
# The maximum number of records that are checked one by one before the next attempt to find a run. The number doubles
# with every attempt that fails.
_STRETCH_MAX: Final = 256
# A record that is checked one by one takes the time of this many records in a run.
_RUN_SHARE: Final = 32
_SHAPES_MAX: Final = 1024
_NONE_IS_OLD: Final = (INT64_MAX, 0)
# The encoded offset deltas, by the index of the record.
_OFFSET_DELTAS_KNOWN: Final = 8192
_OFFSET_DELTAS: Final = tuple(VARINTS[delta] for delta in range(_OFFSET_DELTAS_KNOWN))


class BadRecord(DecodeError):
    """A record that is not valid, so that no reader could get past it: its index in the batch, and what is wrong."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(f"record {index}: {what}")
        self.index = index
        self.what = what


class RecordCheck:
    """The check of one decompressed block of records. Call ``advance`` until it returns True."""

    __slots__ = (
        "_base_timestamp",
        "_block",
        "_count",
        "_effort_max",
        "_end",
        "_headers_left",
        "_index",
        "_last",
        "_limit",
        "_position",
        "_stretch",
        "_time",
        "effort",
        "exceeds",
        "keyless",
        "keyless_count",
        "newest",
        "oldest",
        "reaches",
    )

    def __init__(
        self, block: bytes | bytearray, count: int, base_timestamp: int | None = None, limit: int | None = None
    ) -> None:
        """With a ``base_timestamp`` the check also finds the lowest and the highest timestamp (``oldest``, ``newest``).

        With a ``limit``, which is a timestamp delta from 0 on, it only finds out whether that is the highest one
        (``is_limit_exact``). This takes much less time.
        """
        self._block = block
        self._count = count
        self._base_timestamp = base_timestamp
        self._limit = None if limit is None else limit << 1  # In zigzag form.
        self.reaches = self.exceeds = False
        """Whether a record has the timestamp delta ``limit``, and whether one has a higher one."""
        self.newest = NO_TIMESTAMP
        self._time = -1  # The timestamp delta of the previous record, in zigzag form.
        self.oldest = _NONE_IS_OLD
        """The lowest timestamp, and the index of the first record with it. Records without a timestamp are ignored."""
        self._headers_left = 0  # Of the record with the index ``_index``, which ends at ``_end``.
        self._end = 0
        self._effort_max = 0
        self._index = self._position = 0
        self._last = 0  # The start of the last record that was checked one by one.
        self._stretch = 1  # The number of records to check one by one before looking for a run.
        self.effort = 0
        self.keyless: list[int] = []
        self.keyless_count = 0

    @property
    def is_exact(self) -> bool:
        """Whether the check finds the timestamps, and does not only compare them with a limit."""
        return self._base_timestamp is not None

    @property
    def is_limit_exact(self) -> bool:
        return self.reaches and not self.exceeds

    def advance(self, effort_max: int) -> bool:
        """Continue the check with about this much effort. Returns whether all records were checked.

        The effort of a record or a header that is checked one by one is 1, that of a record with timestamps 2.
        ``effort`` is the sum so far. Raises ``BadRecord`` for the first invalid record, and ``DecodeError`` if the
        number of records is wrong.
        """
        block, count = self._block, self._count
        if count * _RECORD_SIZE_MIN > len(block):
            raise DecodeError(f"{count} records in {len(block)} bytes; a record takes at least {_RECORD_SIZE_MIN}")
        effort_max += self.effort
        self._effort_max = effort_max
        record_effort = 1 if self._base_timestamp is None else 2
        while self._index < count:
            if self.effort >= effort_max:
                return False
            run = 0
            try:
                if self._headers_left:
                    self._resume_headers()
                    continue
                if count - self._index >= _RUN_MIN:
                    run = self._pass_run((effort_max - self.effort) * _RUN_SHARE)
                    self.effort += run // _RUN_SHARE
                    if self._index == count:
                        break
                    if self.effort >= effort_max:
                        return False
                first = self._index
                self._walk(min(count, first + self._stretch))
                self.effort += (self._index - first) * record_effort
            except IndexError:
                raise BadRecord(self._index, f"the {len(block)} bytes of the batch end in the middle of it") from None
            self._stretch = 1 if run else min(self._stretch * 2, _STRETCH_MAX)
        if self._position != len(block):
            raise DecodeError(f"{len(block) - self._position} bytes behind the last of {count} records")
        return True

    def _walk(self, stop: int) -> None:
        """Check records one by one, up to the index ``stop``: the hot loop, in which short integers are read inline."""
        block, size = self._block, len(self._block)
        starts_with = block.startswith
        wants_times = self._base_timestamp is not None
        limit = self._limit
        position, index = self._position, self._index
        last = position
        keyless: list[int] = []
        try:
            while index < stop:
                last = position
                number = block[position]
                position += 1
                if number >= 0x80:
                    if (more := block[position]) < 0x80:
                        number += (more << 7) - 0x80
                        position += 1
                    else:
                        number, position = decode_unsigned(block, position - 1, VARINT_BITS)
                end = position + (number >> 1)
                if number & 1 or end > size:
                    raise BadRecord(index, f"length {_signed(number)}; {size - position} bytes are left")

                if wants_times:
                    number, _ = decode_unsigned(block, position + 1, VARLONG_BITS)
                    if number != self._time:
                        self._time = number
                        self._note_time(number, index)
                elif limit is not None:
                    number = block[position + 1]
                    if number >= 0x80:
                        number, _ = decode_unsigned(block, position + 1, VARLONG_BITS)
                    if number == limit:
                        self.reaches = True
                    elif number > limit and not number & 1:
                        self.exceeds = True

                # The attributes of a record are not used by Kafka yet, and are skipped.
                if block[position + 1] < 0x80:
                    position += 2
                elif block[position + 2] < 0x80:
                    position += 3
                else:
                    _, position = decode_unsigned(block, position + 1, VARLONG_BITS)

                expected = _OFFSET_DELTAS[index] if index < _OFFSET_DELTAS_KNOWN else VARINTS[index]
                if starts_with(expected, position):
                    position += len(expected)
                else:
                    number, position = decode_unsigned(block, position, VARINT_BITS)
                    if number != index << 1:
                        raise BadRecord(index, f"offset delta {_signed(number)}; expected {index}")

                number = block[position]
                position += 1
                if number == 1:
                    keyless.append(index)
                else:
                    if number >= 0x80:
                        number, position = decode_unsigned(block, position - 1, VARINT_BITS)
                    if number & 1:
                        raise BadRecord(index, f"key length {_signed(number)}")
                    position += number >> 1

                number = block[position]
                position += 1
                if number != 1:
                    if number >= 0x80:
                        if (more := block[position]) < 0x80:
                            number += (more << 7) - 0x80
                            position += 1
                        else:
                            number, position = decode_unsigned(block, position - 1, VARINT_BITS)
                    if number & 1:
                        raise BadRecord(index, f"value length {_signed(number)}")
                    position += number >> 1

                if block[position]:
                    position = self._begin_headers(position, end, index)
                    if self._headers_left:
                        return  # The effort is used up; ``_resume_headers`` continues here.
                    if self.effort >= self._effort_max:
                        stop = index + 1
                else:
                    position += 1
                if position != end:
                    raise _bad_end(index, position, end)
                index += 1
        except DecodeError as error:
            if isinstance(error, BadRecord):
                raise
            raise BadRecord(index, str(error)) from None
        finally:
            self._position, self._index, self._last = position, index, last
            if keyless:
                self.keyless_count += len(keyless)
                self.keyless += keyless[: KEYLESS_NAMED_MAX - len(self.keyless)]

    def _begin_headers(self, position: int, end: int, index: int) -> int:
        number, position = decode_unsigned(self._block, position, VARINT_BITS)
        if number & 1 or number > end - position:  # A header takes two bytes at least, and number is twice the count.
            raise BadRecord(index, f"header count {_signed(number)}; {end - position} bytes are left")
        if number > 2 * HEADERS_MAX:
            raise BadRecord(index, f"header count {number >> 1}; a record may have {HEADERS_MAX}")
        self._headers_left, self._end = number >> 1, end
        return self._walk_headers(position, index)

    def _resume_headers(self) -> None:
        """Continue with the headers of a record that took more than the effort of the last call."""
        index = self._index
        try:
            position = self._position = self._walk_headers(self._position, index)
        except DecodeError as error:
            raise error if isinstance(error, BadRecord) else BadRecord(index, str(error)) from None
        if self._headers_left:
            return
        if position != self._end:
            raise _bad_end(index, position, self._end)
        self._index = index + 1

    def _walk_headers(self, position: int, index: int) -> int:
        """Check as many of the remaining headers as the effort allows, and at least one.

        Returns the position after them.
        """
        block = self._block
        count = min(self._headers_left, max(1, self._effort_max - self.effort))
        for _ in range(count):
            number, position = decode_unsigned(block, position, VARINT_BITS)
            if number & 1:
                raise BadRecord(index, f"header key length {_signed(number)}")
            position += number >> 1
            if block[position] == 1:
                position += 1
                continue
            number, position = decode_unsigned(block, position, VARINT_BITS)
            if number & 1:
                raise BadRecord(index, f"header value length {_signed(number)}")
            position += number >> 1
        self.effort += count
        self._headers_left -= count
        return position

    def _pass_run(self, length_max: int) -> int:
        """Check a run of records of one size and shape, if one begins here. Returns the number of its records."""
        block, position, index = self._block, self._position, self._index
        number = block[position]
        size = 1
        if number >= 0x80:
            number += (block[position + 1] << 7) - 0x80
            size = 2
            if number >= 0x4000:
                number += (block[position + 2] << 14) - 0x4000
                size = 3
        size += number >> 1
        # After a length of one byte come the attributes, which are the same in all records of a run, too.
        if block[position : position + 2] != block[position + size : position + size + 2]:
            return 0
        # Within a run, all offset deltas have the same number of bytes, of which all but two are equal.
        delta_size, border = offset_delta_at(index)
        key = size * 8 + delta_size
        shape = _SHAPES.get(key)
        left = min(length_max, self._count - index, (len(block) - position) // size, border - index)
        passed = 0 if shape is None else self._pass_shape(shape, size, left)
        if passed or position - self._last != size:
            return passed
        shape = RunShape(block, self._last)
        if not shape.is_regular or shape.delta_size != delta_size:
            return 0
        if len(_SHAPES) >= _SHAPES_MAX:
            _SHAPES.clear()
        _SHAPES[key] = shape
        return self._pass_shape(shape, size, left)

    def _pass_shape(self, shape: RunShape, size: int, left: int) -> int:
        block, first = self._block, self._index
        position, index, piece = self._position, first, _PIECE_MAX
        while left > 0 and self.effort < self._effort_max:
            if piece > left:
                piece = left
            if shape.fits(block, position, size, index, piece):
                if self._base_timestamp is not None:
                    self._note_times(shape, position, size, piece, index)
                elif self._limit is not None:
                    reaches, exceeds = shape.times_at(block, position, size, piece, self._limit)
                    self.reaches |= reaches
                    self.exceeds |= exceeds
                if shape.is_keyless:
                    self._note_keyless(index, piece)
                position += piece * size
                index += piece
                left -= piece
            elif piece > _PIECE_MIN:
                piece >>= 2
            else:
                break
        self._position, self._index = position, index
        return index - first

    def _note_times(self, shape: RunShape, position: int, size: int, count: int, index: int) -> None:
        assert self._base_timestamp is not None
        numbers, first = shape.times(self._block, position, size, count)
        self.effort += len(numbers)
        times = {_timestamp(self._base_timestamp, number): number for number in numbers}
        self.newest = max(self.newest, *times)
        times.pop(NO_TIMESTAMP, None)
        if times and (lowest := min(times)) < self.oldest[0]:
            self.oldest = lowest, index + first(times[lowest])

    def _note_time(self, number: int, index: int) -> None:
        assert self._base_timestamp is not None
        timestamp = _timestamp(self._base_timestamp, number)
        if timestamp > self.newest:
            self.newest = timestamp
        if timestamp < self.oldest[0] and timestamp != NO_TIMESTAMP:
            self.oldest = timestamp, index

    def _note_keyless(self, index: int, count: int) -> None:
        self.keyless_count += count
        if len(self.keyless) < KEYLESS_NAMED_MAX:
            self.keyless += range(index, index + min(count, KEYLESS_NAMED_MAX - len(self.keyless)))


# The last shape by size of a record and size of its offset delta. ``fits`` verifies a shape for each run, so it may
# come from any batch.
_SHAPES: Final[dict[int, RunShape]] = {}


def is_sound_single(block: Buffer) -> bool:
    """Whether a quick check shows that a batch's only record is valid and has the base timestamp of the batch.

    If not, ``RecordCheck`` has to decide.
    """
    try:
        number = block[0]
        position = 1
        if number >= 0x80:
            number += (block[1] << 7) - 0x80
            position = 2
            if number >= 0x4000:
                number += (block[2] << 14) - 0x4000
                position = 3
        # A timestamp delta of 0, and an offset delta of 0.
        if (
            number & 1
            or number >= 0x200000
            or position + (number >> 1) != len(block)
            or block[position + 1]
            or block[position + 2]
        ):
            return False
        number = block[position + 3]
        position += 4
        if number != 1:
            if number >= 0x80 or number & 1:
                return False
            position += number >> 1
        number = block[position]
        position += 1
        if number == 1:
            number = 0
        elif number >= 0x80:
            number += (block[position] << 7) - 0x80
            position += 1
            if number >= 0x4000:
                number += (block[position] << 14) - 0x4000
                position += 1
        position += number >> 1
        return not number & 1 and number < 0x200000 and position + 1 == len(block) and not block[position]
    except IndexError:
        return False


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _timestamp(base_timestamp: int, number: int) -> int:
    return wrap_int64(base_timestamp + _signed(number))


def _bad_end(index: int, position: int, end: int) -> BadRecord:
    return BadRecord(index, f"its fields end at byte {position}, its length says {end}")
