"""The shape of a run: the layout of its records, and a check of many records at once by columns.

In a run all records have the same size and the same layout. So the bytes at one position of all records are a column,
``block[place::size]``, which Python slices and compares in C.

The law: ``fits`` returns True only for records that a reader accepts, with consecutive offset deltas from ``index`` on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from semel.wire.records.varint import VARINT_BITS, VARLONG_BITS, decode_unsigned
from semel.wire.varint import unsigned_varint

# The limit for twice the number of headers: with more, a check by columns is not worth while.
_COLUMNS_MAX: Final = 32
# A varint of this many bytes can exceed 64 bits, which a check by columns does not detect.
_TIME_SIZE_MAX: Final = 10

_HIGH: Final = bytes(range(0x80, 0x100))
_BYTES: Final = tuple(bytes([number]) for number in range(0x100))

# The encoded offset deltas of one byte, and the two columns of those of two bytes. From 8192 on the same two bytes
# repeat, with the top bit set in the second, and the bytes after them are the same for 8192 consecutive records.
_PERIOD: Final = 8192
_ONE_BYTE_MAX: Final = 64
_ONE: Final = bytes(delta << 1 for delta in range(_ONE_BYTE_MAX))
_LOW: Final = bytes(delta << 1 & 0x7F | 0x80 for delta in range(_PERIOD))
_SECOND: Final = bytes(delta >> 6 for delta in range(_PERIOD))
_SECOND_OF_MORE: Final = bytes(delta >> 6 | 0x80 for delta in range(_PERIOD))

# For each value of seven bits, a table for ``translate``: 1 for the bytes whose lower seven bits are above it, or equal
# to it, and 0 for the others.
_ABOVE: Final = tuple((bytes(bound + 1) + b"\1" * (0x7F - bound)) * 2 for bound in range(0x80))
_EQUAL: Final = tuple((bytes(bound) + b"\1" + bytes(0x7F - bound)) * 2 for bound in range(0x80))
_EVEN: Final = b"\1\0" * 0x80


class RunShape:
    """The positions of the fields in a record, and the bytes that are the same in all records of its run."""

    __slots__ = ("_constants", "_delta_at", "_time_at", "_time_size", "delta_size", "is_keyless", "is_regular")

    def __init__(self, block: bytes | bytearray, start: int) -> None:
        """Take the shape of the record at ``start``, which must have been checked already."""
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
        self.is_regular = number <= _COLUMNS_MAX and self._time_size < _TIME_SIZE_MAX
        for _ in range(number >> 1 if self.is_regular else 0):
            number, position = number_at(position)
            number, position = number_at(position + (number >> 1))
            position += 0 if number == 1 else number >> 1
        self._constants = constants

    def fits(self, block: bytes | bytearray, position: int, size: int, index: int, count: int) -> bool:
        """Whether ``count`` records of this size and shape are at ``position``, with offset deltas from ``index``."""
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
                    for at, byte in enumerate(unsigned_varint(period))
                )
            )
        )

    def times(
        self, block: bytes | bytearray, position: int, size: int, count: int
    ) -> tuple[set[int], Callable[[int], int]]:
        """Return the timestamp deltas of records that fit, in zigzag form, and a function that returns the first record
        with a given one."""
        end = position + count * size
        place = position + self._time_at
        columns = [block[at:end:size] for at in range(place, place + self._time_size)]
        if len(columns) == 1:
            return set(columns[0]), columns[0].index
        rows = list(zip(*columns, strict=True))
        numbers = {sum((byte & 0x7F) << 7 * at for at, byte in enumerate(row)): row for row in set(rows)}
        return set(numbers), lambda number: rows.index(numbers[number])

    def times_at(self, block: bytes | bytearray, position: int, size: int, count: int, limit: int) -> tuple[bool, bool]:
        """Return whether records that fit have a timestamp delta of ``limit``, and whether any has a higher one.

        ``limit`` is in zigzag form and not negative. All records are compared at once: an integer has one byte for each
        of them, which is 1 if the comparison holds.
        """
        if limit >> 7 * self._time_size:
            return False, False
        end = position + count * size
        place = position + self._time_at
        above, equal = 0, -1
        column: bytes | bytearray = b""
        for at in reversed(range(self._time_size)):
            column = block[place + at : end : size]
            bound = limit >> 7 * at & 0x7F
            above |= equal & int.from_bytes(column.translate(_ABOVE[bound]), "big")
            equal &= int.from_bytes(column.translate(_EQUAL[bound]), "big")
        # The odd numbers are the negative ones.
        return equal != 0, above & int.from_bytes(column.translate(_EVEN), "big") != 0


def offset_delta_at(index: int) -> tuple[int, int]:
    """Return the size of this record's offset delta, and the index of the first later record whose delta has another
    size, or other bytes after the second."""
    if index < _ONE_BYTE_MAX:
        return 1, _ONE_BYTE_MAX
    if index < _PERIOD:
        return 2, _PERIOD
    period = index // _PERIOD
    return 2 + len(unsigned_varint(period)), (period + 1) * _PERIOD
