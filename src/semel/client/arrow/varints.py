"""Zigzag variable-length integers by the column: what ``wire.records.varint`` does for one number."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s: TypeAlias = npt.NDArray[np.int64]
Uint64s: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

# From these on, a number in zigzag form takes one byte more.
_STEPS: Final = np.array([1 << (7 * width) for width in range(1, 10)], dtype=np.uint64)
_SEVEN: Final = np.uint64(7)
_LOW: Final = np.uint64(0x7F)
_WIDTH_MAX: Final = 10


def zigzag(numbers: Int64s) -> Uint64s:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def widths(numbers: Int64s) -> Int64s:
    """How many bytes each number takes."""
    unsigned = zigzag(numbers)
    largest = int(unsigned.max(initial=0))
    result = np.ones(len(numbers), dtype=np.int64)
    for step in _STEPS:
        if largest < int(step):
            break
        result += unsigned >= step
    return result


def join_varints(*columns: Int64s) -> pa.BinaryArray:
    """Per row, the numbers of all columns one behind the other."""
    count = len(columns[0])
    blocks: list[Bytes] = []
    used: list[npt.NDArray[np.bool_]] = []
    sizes = np.zeros(count, dtype=np.int64)
    for numbers in columns:
        unsigned = zigzag(numbers)
        size = widths(numbers)
        widest = int(size.max(initial=1))
        block = np.empty((count, widest), dtype=np.uint8)
        for place in range(widest):
            more = (place < size - 1).astype(np.uint8) << 7
            block[:, place] = ((unsigned >> (_SEVEN * np.uint64(place))) & _LOW).astype(np.uint8) | more
        blocks.append(block)
        used.append(np.arange(widest) < size[:, None])
        sizes += size
    data = np.hstack(blocks)
    if int(sizes.sum()) != data.size:
        data = data[np.hstack(used)]
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def read_varints(data: Bytes, positions: Int64s) -> tuple[Int64s, Int64s]:
    """The numbers that stand at these positions, and the positions behind them.

    What lies behind the end of the data reads as its last byte, and a number of more than ten bytes ends there: whoever
    calls this checks where it came out.
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
