"""The partition of an internal topic that holds a transactional id or a group id, computed as every Kafka broker does.

The law: the result for an id never changes, here or in Kafka; otherwise its state would be looked up in the wrong
partition.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

_CODE_UNIT: Final = Struct("<H")
_INT32: Final = 2**32
_INT32_MIN: Final = -(2**31)

REMEMBERED_CHARACTERS_MAX: Final = 500
"""The length up to which an id is cached with its partition. An id may have 32 KB, and the cache holds thousands."""


def partition_for(key: str, partitions: int) -> int:
    """Return the index of the partition that holds a transactional id or a group id, of ``partitions`` in the topic."""
    return (_remembered if len(key) <= REMEMBERED_CHARACTERS_MAX else _computed)(key, partitions)


def _computed(key: str, partitions: int) -> int:
    hashed = java_hash(key)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % partitions


_remembered: Final = lru_cache(maxsize=4096)(_computed)


def java_hash(text: str) -> int:
    """Return what Java's ``String.hashCode`` returns: over UTF-16 code units, in 32 bits with overflow."""
    hashed = 0
    for (unit,) in _CODE_UNIT.iter_unpack(text.encode("utf-16-le")):
        hashed = (31 * hashed + unit) % _INT32
    return hashed - _INT32 if hashed >= _INT32 // 2 else hashed
