"""Whether the bytes behind a header are the records that it promises: checked without building one of them.

The law: what ``RecordCheck`` takes, ``RecordBlock`` reads to its end, record by record, with offsets from 0 without
gaps; what it does not take would stop a reader there, for good, or has more than ``HEADERS_MAX`` headers in a record.
Keys and values are passed over, not copied.

A reader that goes from record to record in Python takes most of a microsecond for each. But nearly every batch consists
of *runs*: stretches of records of the same size whose fields stand at the same places, which are checked by columns
(``run_shape``): lengths must be the same in every record, offset deltas are known beforehand, and timestamp deltas must
end where the shape says. Shapes are taken from records that were walked, and remembered from batch to batch; what
belongs to no run is walked.

The check can be done in steps, each bounded by the effort it may take, also in the middle of a record's headers: so a
large batch is begun on the event loop, and finished elsewhere if it turns out to take long.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError
from semel.types import INT64_MAX, Buffer
from semel.wire.records.header import NO_TIMESTAMP
from semel.wire.records.run_shape import RunShape, offset_delta_at
from semel.wire.records.varint import VARINT_BITS, VARINTS, VARLONG_BITS, decode_unsigned, wrap_int64

KEYLESS_NAMED_MAX: Final = 100
"""So many records without a key are remembered by number; the others are counted."""

HEADERS_MAX: Final = 100_000
"""More headers in one record are refused. A reader keeps an object for each, a hundred times what they take here."""

# Length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each at least.
_RECORD_SIZE_MIN: Final = 7

# A run is checked in pieces: large enough that a call for a column is lost among its records, small enough that all
# columns of a piece are still in the processor's cache. Where one is not right, a smaller one may be.
_RUN_MIN: Final = 4
_PIECE_MIN: Final = 8
_PIECE_MAX: Final = 512
# Where no run begins, so many records are walked before the next try: more and more while there is none.
_STRETCH_MAX: Final = 256
# A record of a run takes this part of the time of one that is walked.
_RUN_SHARE: Final = 32
_SHAPES_MAX: Final = 1024
_NONE_IS_OLD: Final = (INT64_MAX, 0)
# By number, what the offset delta of a record looks like.
_OFFSET_DELTAS_KNOWN: Final = 8192
_OFFSET_DELTAS: Final = tuple(VARINTS[delta] for delta in range(_OFFSET_DELTAS_KNOWN))


class BadRecord(DecodeError):
    """A record that no reader would get past: its number in the batch, and what is wrong with it."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(f"record {index}: {what}")
        self.index = index
        self.what = what


class RecordCheck:
    """The check of one block of records, decompressed: ``advance`` until it is over."""

    __slots__ = (
        "_base_timestamp",
        "_block",
        "_count",
        "_effort_max",
        "_end",
        "_headers_left",
        "_index",
        "_last",
        "_position",
        "_stretch",
        "_time",
        "effort",
        "keyless",
        "keyless_count",
        "oldest",
    )

    def __init__(self, block: bytes | bytearray, count: int, base_timestamp: int | None = None) -> None:
        """With a ``base_timestamp``, the oldest record is found too."""
        self._block = block
        self._count = count
        self._base_timestamp = base_timestamp
        self._time = -1  # The timestamp delta that was seen last, in zigzag form.
        self.oldest = _NONE_IS_OLD
        """The lowest timestamp, and the first record that has it. A record without a timestamp is not old."""
        self._headers_left = 0  # Of the record whose number is ``_index``, and which ends at ``_end``.
        self._end = 0
        self._effort_max = 0
        self._index = self._position = 0
        self._last = 0  # Where the last record that was walked begins.
        self._stretch = 1  # So many are walked before a run is looked for.
        self.effort = 0
        self.keyless: list[int] = []
        self.keyless_count = 0

    def advance(self, effort_max: int) -> bool:
        """Go on with about so much effort: a record, or a header, that is walked takes 1. Whether all were checked.

        ``effort`` counts what was taken. Raises ``BadRecord`` for the first record that is wrong, ``DecodeError`` where
        the count is.
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
        """From record to record. The hot loop for records that are no run: what is short is read in line."""
        block, size = self._block, len(self._block)
        starts_with = block.startswith
        wants_times = self._base_timestamp is not None
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

                # The attributes of a record have no meaning yet and are passed over.
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
                        return  # All effort is spent; ``_resume_headers`` goes on from here.
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
        """Go on in the record whose headers took more effort than there was."""
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
        """As many of the headers that are left as the effort allows, and one at least."""
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
        """Pass over records of one size and shape, if such a run begins here. Returns how many there were."""
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
        # A length of one byte has the attributes behind it, which are the same in all records too.
        if block[position : position + 2] != block[position + size : position + size + 2]:
            return 0
        # Within a run, all offset deltas have the same number of bytes, and but for two of them the same ones.
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
        times.pop(NO_TIMESTAMP, None)
        if times and (lowest := min(times)) < self.oldest[0]:
            self.oldest = lowest, index + first(times[lowest])

    def _note_time(self, number: int, index: int) -> None:
        assert self._base_timestamp is not None
        timestamp = _timestamp(self._base_timestamp, number)
        if timestamp < self.oldest[0] and timestamp != NO_TIMESTAMP:
            self.oldest = timestamp, index

    def _note_keyless(self, index: int, count: int) -> None:
        self.keyless_count += count
        if len(self.keyless) < KEYLESS_NAMED_MAX:
            self.keyless += range(index, index + min(count, KEYLESS_NAMED_MAX - len(self.keyless)))


# By the size of a record and of its offset delta: the shape that was seen last. A guess that the columns confirm or
# refute, so it does not matter which batch it comes from.
_SHAPES: Final[dict[int, RunShape]] = {}


def is_sound_single(block: Buffer) -> bool:
    """The quick yes for the only record of a batch, read in place. A no means: ask ``RecordCheck``."""
    try:
        number = block[0]
        position = 1
        if number >= 0x80:
            number += (block[1] << 7) - 0x80
            position = 2
            if number >= 0x4000:
                number += (block[2] << 14) - 0x4000
                position = 3
        # A timestamp delta of one byte, and an offset delta of 0.
        if (
            number & 1
            or number >= 0x200000
            or position + (number >> 1) != len(block)
            or block[position + 1] >= 0x80
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
