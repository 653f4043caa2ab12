"""Whether the bytes behind a header are the records that it promises: checked without building one of them.

The law: what ``RecordCheck`` takes, ``RecordBlock`` reads to its end, record by record, with offsets from 0 without
gaps; what it does not take would stop a reader there, for good. Keys and values are passed over, not copied.

A reader that goes from record to record in Python takes most of a microsecond for each. But nearly every batch consists
of *runs*: stretches of records of the same size whose fields stand at the same places. In a run each of those places is
a column, ``block[place::size]``, that is cut out and compared in C: lengths must be the same in every record, offset
deltas are known beforehand, and timestamp deltas must end where the shape says. Shapes are taken from records that were
walked, and remembered from batch to batch; what belongs to no run is walked.

The check can be done in steps, each bounded by the effort it may take: so a large batch is begun on the event loop, and
finished elsewhere if it turns out to take long.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.records.varint import VARINT_BITS, VARINTS, VARLONG_BITS, decode_unsigned

KEYLESS_NAMED_MAX: Final = 100
"""So many records without a key are remembered by number; the others are counted."""

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
# A record with more headers is not worth the columns that it would take.
_COLUMNS_MAX: Final = 32

_HIGH: Final = bytes(range(0x80, 0x100))
_SHAPES_MAX: Final = 1024
_BYTES: Final = tuple(bytes([number]) for number in range(0x100))

# Offset deltas by number: as a whole, and as the two columns of those that take two bytes. From 8192 on the same two
# bytes come again, with the top bit set in the second, and what follows is the same for 8192 records in a row.
_PERIOD: Final = 8192
_OFFSET_DELTAS: Final = tuple(VARINTS[delta] for delta in range(_PERIOD))
_ONE_BYTE_MAX: Final = 64
_ONE: Final = bytes(delta << 1 for delta in range(_ONE_BYTE_MAX))
_LOW: Final = bytes(delta << 1 & 0x7F | 0x80 for delta in range(_PERIOD))
_SECOND: Final = bytes(delta >> 6 for delta in range(_PERIOD))
_SECOND_OF_MORE: Final = bytes(delta >> 6 | 0x80 for delta in range(_PERIOD))


class BadRecord(DecodeError):
    """A record that no reader would get past: its number in the batch, and what is wrong with it."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(f"record {index}: {what}")
        self.index = index
        self.what = what


class RecordCheck:
    """The check of one block of records, decompressed: ``advance`` until it is over."""

    __slots__ = ("_block", "_count", "_index", "_last", "_position", "_stretch", "effort", "keyless", "keyless_count")

    def __init__(self, block: bytes | bytearray, count: int) -> None:
        self._block = block
        self._count = count
        self._index = self._position = 0
        self._last = 0  # Where the last record that was walked begins.
        self._stretch = 1  # So many are walked before a run is looked for.
        self.effort = 0
        self.keyless: list[int] = []
        self.keyless_count = 0

    def advance(self, effort_max: int) -> bool:
        """Go on with about so much effort: the time of a record that is walked is 1. Whether all were checked.

        ``effort`` counts what was taken. Raises ``BadRecord`` for the first record that is wrong, ``DecodeError`` where
        the count is.
        """
        block, count = self._block, self._count
        if count * _RECORD_SIZE_MIN > len(block):
            raise DecodeError(f"{count} records in {len(block)} bytes; a record takes at least {_RECORD_SIZE_MIN}")
        effort_max += self.effort
        while self._index < count:
            if self.effort >= effort_max:
                return False
            run = 0
            try:
                if count - self._index >= _RUN_MIN:
                    run = self._pass_run((effort_max - self.effort) * _RUN_SHARE)
                    self.effort += run // _RUN_SHARE
                    if self._index == count:
                        break
                stop = min(count, self._index + self._stretch)
                self.effort += stop - self._index
                self._walk(stop)
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

                # The attributes of a record have no meaning yet and are passed over.
                if block[position + 1] < 0x80:
                    position += 2
                elif block[position + 2] < 0x80:
                    position += 3
                else:
                    _, position = decode_unsigned(block, position + 1, VARLONG_BITS)

                expected = _OFFSET_DELTAS[index] if index < _PERIOD else VARINTS[index]
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
                    position = self._walk_headers(position, end, index)
                else:
                    position += 1
                if position != end:
                    raise BadRecord(index, f"its fields end at byte {position}, its length says {end}")
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

    def _walk_headers(self, position: int, end: int, index: int) -> int:
        block = self._block
        number, position = decode_unsigned(block, position, VARINT_BITS)
        if number & 1 or number > end - position:  # A header takes two bytes at least, and number is twice the count.
            raise BadRecord(index, f"header count {_signed(number)}; {end - position} bytes are left")
        for _ in range(number >> 1):
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
        delta_size, border = _offset_delta_at(index)
        key = size * 8 + delta_size
        shape = _SHAPES.get(key)
        left = min(length_max, self._count - index, (len(block) - position) // size, border - index)
        passed = 0 if shape is None else self._pass_shape(shape, size, left)
        if passed or position - self._last != size:
            return passed
        shape = _Shape(block, self._last)
        if not shape.is_regular or shape.delta_size != delta_size:
            return 0
        if len(_SHAPES) >= _SHAPES_MAX:
            _SHAPES.clear()
        _SHAPES[key] = shape
        return self._pass_shape(shape, size, left)

    def _pass_shape(self, shape: _Shape, size: int, left: int) -> int:
        block, first = self._block, self._index
        position, index, piece = self._position, first, _PIECE_MAX
        while left > 0:
            if piece > left:
                piece = left
            if shape.fits(block, position, size, index, piece):
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

    def _note_keyless(self, index: int, count: int) -> None:
        self.keyless_count += count
        if len(self.keyless) < KEYLESS_NAMED_MAX:
            self.keyless += range(index, index + min(count, KEYLESS_NAMED_MAX - len(self.keyless)))


class _Shape:
    """Where the fields of a record stand, and the bytes that all records of its run have in common."""

    __slots__ = ("_constants", "_delta_at", "_time_at", "_time_size", "delta_size", "is_keyless", "is_regular")

    def __init__(self, block: bytes | bytearray, start: int) -> None:
        """Of a record that was walked, and so is sound."""
        constants: list[tuple[int, bytes]] = []

        def number_at(position: int) -> tuple[int, int]:
            number, behind = decode_unsigned(block, position, VARINT_BITS)
            constants.extend((place - start, _BYTES[block[place]]) for place in range(position, behind))
            return number, behind

        _, position = number_at(start)
        _, behind = decode_unsigned(block, position + 1, VARLONG_BITS)
        self._time_at, self._time_size = position + 1 - start, behind - position - 1
        self._delta_at = behind - start
        _, position = decode_unsigned(block, behind, VARINT_BITS)
        self.delta_size = position - behind
        number, position = number_at(position)
        self.is_keyless = number == 1
        number, position = number_at(position + (0 if number == 1 else number >> 1))
        number, position = number_at(position + (0 if number == 1 else number >> 1))
        self.is_regular = number <= _COLUMNS_MAX
        for _ in range(number >> 1 if self.is_regular else 0):
            number, position = number_at(position)
            number, position = number_at(position + (number >> 1))
            position += 0 if number == 1 else number >> 1
        self._constants = constants

    def fits(self, block: bytes | bytearray, position: int, size: int, index: int, count: int) -> bool:
        """Whether so many records of this size follow each other from ``position`` on, the first with this number."""
        end = position + count * size
        for place, byte in self._constants:
            if block[position + place : end : size] != byte * count:
                return False
        place = position + self._time_at
        for _ in range(self._time_size - 1):
            if block[place:end:size].translate(None, _HIGH):
                return False
            place += 1
        if not block[place:end:size].isascii():
            return False
        place = position + self._delta_at
        if index < _ONE_BYTE_MAX:
            return block[place:end:size] == _ONE[index : index + count]
        period, number = divmod(index, _PERIOD)
        second = _SECOND_OF_MORE if period else _SECOND
        return (
            block[place:end:size] == _LOW[number : number + count]
            and block[place + 1 : end : size] == second[number : number + count]
            and (
                not period
                or all(
                    block[place + 2 + at : end : size] == _BYTES[byte] * count
                    for at, byte in enumerate(_unsigned(period))
                )
            )
        )


# By the size of a record and of its offset delta: the shape that was seen last. A guess that the columns confirm or
# refute, so it does not matter which batch it comes from.
_SHAPES: Final[dict[int, _Shape]] = {}


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


def _offset_delta_at(index: int) -> tuple[int, int]:
    """How many bytes the offset delta of a record takes, and the first record of which that, or more, is not true."""
    if index < _ONE_BYTE_MAX:
        return 1, _ONE_BYTE_MAX
    if index < _PERIOD:
        return 2, _PERIOD
    period = index // _PERIOD
    return 2 + len(_unsigned(period)), (period + 1) * _PERIOD


def _unsigned(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
