"""Zigzag varints for whole columns: what ``wire.records.varint`` does for one number."""

from __future__ import annotations

from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s: TypeAlias = npt.NDArray[np.int64]
Uint64s: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

# The numbers, in zigzag form, from which on one byte more is needed.
_STEPS: Final = np.array([1 << (7 * width) for width in range(1, 10)], dtype=np.uint64)
_SEVEN: Final = np.uint64(7)
_LOW: Final = np.uint64(0x7F)
_WIDTH_MAX: Final = 10
_WORD: Final = np.dtype("<u8")
_WORD_BYTES: Final = 8
_WORD_BITS: Final = np.uint64(7 * _WORD_BYTES)
_TOO_LONG: Final = np.uint64(1) << _WORD_BITS
_ALL_CONTINUED: Final = np.uint64(0x8080_8080_8080_8080)
# For each number of used bytes, a word with a one in each of them.
_USED_BYTES: Final = np.array([int.from_bytes(b"\1" * used, "little") for used in range(_WORD_BYTES + 1)], dtype=_WORD)


def zigzag(numbers: Int64s) -> Uint64s:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def widths(numbers: Int64s) -> Int64s:
    """Return how many bytes each number takes."""
    unsigned = zigzag(numbers)
    largest = int(unsigned.max(initial=0))
    result = np.ones(len(numbers), dtype=np.int64)
    for step in _STEPS:
        if largest < int(step):
            break
        result += unsigned >= step
    return result


class Varints(NamedTuple):
    """A column of numbers as varints, ready to be joined with other columns row by row."""

    row_count: int
    words: tuple[_Word, ...]
    widths: Int64s | int
    """How many bytes each number takes."""

    @classmethod
    def of(cls, numbers: Int64s) -> Varints:
        unsigned = zigzag(numbers)
        largest = int(unsigned.max(initial=0))
        words = (_word(unsigned, largest),) if largest < _TOO_LONG else _two_words(unsigned)
        return cls(len(numbers), words, words[0].widths if len(words) == 1 else words[0].widths + words[1].widths)

    @classmethod
    def same(cls, number: int) -> Varints:
        """Return one number of one byte, for as many rows as the other columns have."""
        return cls(0, (_Word(np.uint64((number << 1) ^ (number >> 63)), 1, 1),), 1)

    def part(self, first: int, end: int) -> Varints:
        """Return the numbers of some of the rows."""
        widths = self.widths if isinstance(self.widths, int) else self.widths[first:end]
        return Varints(end - first, tuple(word.part(first, end) for word in self.words), widths)


def join_varints(*columns: Varints) -> pa.BinaryArray:
    """Return, for each row, the numbers of all columns one after the other. The first must be a column with all rows.

    The numbers are packed into words of eight bytes, and the unused bytes are removed from all rows at once. Doing this
    byte by byte took more than twice as long, and was half of the time of encoding.
    """
    count = columns[0].row_count
    words: list[_Word] = []
    for word in chain.from_iterable(column.words for column in columns):
        if words and words[-1].widest + word.widest <= _WORD_BYTES:
            words[-1] = words[-1].followed_by(word)
        else:
            words.append(word)
    data = np.empty((count, len(words)), dtype=_WORD)
    used = np.empty((count, len(words)), dtype=_WORD)
    sizes = np.zeros(count, dtype=np.int64)
    for number, word in enumerate(words):
        data[:, number] = word.bits
        used[:, number] = _USED_BYTES.take(word.widths)
        sizes += word.widths
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    joined = data.view(np.uint8)[used.view(np.bool_)]
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(joined)])


def read_varints(data: Bytes, positions: Int64s) -> tuple[Int64s, Int64s]:
    """Return the numbers at these positions, and the positions behind them.

    A position behind the end of the data reads the last byte, and a number of more than ten bytes is cut there: the
    caller has to check the positions that are returned.
    """
    first = data.take(positions, mode="clip")
    unsigned = (first & 0x7F).astype(np.uint64)
    behind = positions + 1
    more = np.flatnonzero(first >= 0x80)
    for place in range(1, _WIDTH_MAX):
        if not len(more):
            break
        byte = data.take(behind[more], mode="clip")
        unsigned[more] |= (byte & 0x7F).astype(np.uint64) << (_SEVEN * np.uint64(place))
        behind[more] += 1
        more = more[byte >= 0x80]
    signed = (unsigned >> np.uint64(1)).view(np.int64) ^ -(unsigned & np.uint64(1)).view(np.int64)
    return signed, behind


class _Word(NamedTuple):
    """Up to eight bytes for each row, the first one lowest. A number instead of a column is the same for all rows."""

    bits: Uint64s | np.uint64
    widths: Int64s | int
    """How many bytes are used; those above are zero."""
    widest: int

    def part(self, first: int, end: int) -> _Word:
        bits = self.bits if isinstance(self.bits, np.uint64) else self.bits[first:end]
        widths = self.widths if isinstance(self.widths, int) else self.widths[first:end]
        return _Word(bits, widths, self.widest)

    def followed_by(self, other: _Word) -> _Word:
        bits = self.bits
        if not isinstance(other.bits, np.uint64) or other.bits:
            bits = bits | other.bits << np.asarray(8 * self.widths).astype(np.uint64)
        return _Word(bits, self.widths + other.widths, self.widest + other.widest)


def _word(unsigned: Uint64s, largest: int) -> _Word:
    """Encode numbers of up to eight bytes."""
    if not largest:
        return _Word(np.uint64(0), 1, 1)
    if largest <= int(_LOW):
        return _Word(unsigned, 1, 1)
    bits, widest = unsigned & _LOW, 1
    widths = np.ones(len(unsigned), dtype=np.int64)
    while largest >> (7 * widest):
        rest = unsigned >> np.uint64(7 * widest)
        goes_on = rest > 0
        bits |= (rest & _LOW) << np.uint64(8 * widest) | goes_on.astype(np.uint64) << np.uint64(8 * widest - 1)
        widths += goes_on
        widest += 1
    return _Word(bits, widths, widest)


def _two_words(unsigned: Uint64s) -> tuple[_Word, _Word]:
    """Encode numbers of up to ten bytes."""
    rest = unsigned >> _WORD_BITS
    is_long = rest > 0
    low = _word(unsigned & (_TOO_LONG - np.uint64(1)), int(_TOO_LONG) - 1)
    high = _word(rest, int(rest.max()))
    low_bits = np.where(is_long, low.bits | _ALL_CONTINUED, low.bits)
    return (
        _Word(low_bits, np.where(is_long, _WORD_BYTES, low.widths), _WORD_BYTES),
        _Word(high.bits, np.where(is_long, high.widths, 0), high.widest),
    )
