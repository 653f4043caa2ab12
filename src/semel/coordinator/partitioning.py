"""The partition of an internal topic that an id belongs to, as every Kafka broker computes it.

The law: the number never changes for an id, here or in Kafka, or its state would be looked for where it is not.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

_CODE_UNIT: Final = Struct("<H")
_INT32: Final = 2**32
_INT32_MIN: Final = -(2**31)

REMEMBERED_CHARACTERS_MAX: Final = 500
"""Longer ids are not kept beside what was computed from them: an id may have 32 KB, and thousands are kept."""


def partition_for(key: str, partitions: int) -> int:
    """The one of ``partitions`` that holds a transactional id or a group id."""
    return (_remembered if len(key) <= REMEMBERED_CHARACTERS_MAX else _computed)(key, partitions)


def _computed(key: str, partitions: int) -> int:
    hashed = java_hash(key)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % partitions


_remembered: Final = lru_cache(maxsize=4096)(_computed)


def java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 code units, in 32 bits with overflow."""
    hashed = 0
    for (unit,) in _CODE_UNIT.iter_unpack(text.encode("utf-16-le")):
        hashed = (31 * hashed + unit) % _INT32
    return hashed - _INT32 if hashed >= _INT32 // 2 else hashed
