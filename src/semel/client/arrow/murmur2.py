"""The hash of ``machine.producer.murmur2`` for a column of keys: all first words at once, then all second ones."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.types import INT32_MAX

_SEED: Final = np.uint32(0x9747B28C)
_FACTOR: Final = np.uint32(0x5BD1E995)


def positive_murmur2_column(keys: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """Return the hash of ``positive_murmur2`` for each key. A null counts as empty: the caller must exclude nulls."""
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    # Three bytes more, so that the last word of the last key can be read whole.
    data = np.frombuffer(bytes(data_buffer or b"") + b"\0\0\0", dtype=np.uint8)
    starts, sizes = offsets[:-1], np.diff(offsets)
    hashed = _SEED ^ sizes.astype(np.uint32)
    words = sizes >> 2
    for index in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > index)
        at = starts[rows] + 4 * index
        word = _byte(data, at) | _byte(data, at + 1) << np.uint32(8)
        word |= _byte(data, at + 2) << np.uint32(16) | _byte(data, at + 3) << np.uint32(24)
        word *= _FACTOR
        word = (word ^ word >> np.uint32(24)) * _FACTOR
        hashed[rows] = hashed[rows] * _FACTOR ^ word
    rest = sizes & 3
    rows = np.flatnonzero(rest)
    at = starts[rows] + 4 * words[rows]
    tail = _byte(data, at)
    tail |= np.where(rest[rows] > 1, _byte(data, at + 1), np.uint32(0)) << np.uint32(8)
    tail |= np.where(rest[rows] > 2, _byte(data, at + 2), np.uint32(0)) << np.uint32(16)
    hashed[rows] = (hashed[rows] ^ tail) * _FACTOR
    hashed = (hashed ^ hashed >> np.uint32(13)) * _FACTOR
    return (hashed ^ hashed >> np.uint32(15)).astype(np.int64) & INT32_MAX


def _byte(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    return data[at].astype(np.uint32)
