"""The hash by which Kafka's Java client chooses a partition, so that equal keys go to one partition."""

from __future__ import annotations

from functools import lru_cache
from struct import unpack
from typing import Final

from semel.types import INT32_MAX

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF

_KEYS_REMEMBERED: Final = 65_536


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, without sign."""
    size = len(data)
    words = size >> 2
    hashed = _SEED ^ size
    for word in unpack(f"<{words}I", data[: words << 2]):
        word = word * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        hashed = hashed * _FACTOR & _MASK ^ word
    if rest := data[words << 2 :]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


@lru_cache(_KEYS_REMEMBERED)
def positive_murmur2(key: bytes) -> int:
    """Return the hash without its sign bit, for the modulo by the number of partitions. Cached, because keys repeat."""
    return murmur2(key) & INT32_MAX
