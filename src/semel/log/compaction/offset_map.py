"""The offset map of a compaction pass (Kafka's SkimpyOffsetMap): the last offset of each key, for millions of keys.

An open-addressing hash table in one block of memory. A slot is 24 bytes: 16 bytes of the key's BLAKE2b hash, and the
offset plus one (zero is an empty slot). A dictionary would take seven times as much. The keys are not kept: if two keys
had the same hash, the earlier record would be lost. Among n keys the chance of that is n * n / 2**129. Kafka uses MD5
here, for which such keys can be made on purpose; for BLAKE2b no way is known.

The law: at most three quarters of the slots are used, so every search ends after a few steps.
"""

from __future__ import annotations

from hashlib import blake2b
from mmap import mmap
from struct import Struct
from typing import Final

_HASH: Final = Struct(">QQ")
_SLOT_WORDS: Final = 3
_SLOT_BYTES: Final = 8 * _SLOT_WORDS
_SLOTS_MIN: Final = 16


class OffsetMap:
    __slots__ = ("_mask", "_words", "entries", "entries_max")

    def __init__(self, entries_max: int) -> None:
        slots = max(_SLOTS_MIN, 1 << (entries_max * 4 // 3).bit_length())
        self.entries = 0
        self.entries_max = entries_max
        self._mask = slots - 1
        # Anonymous memory is zeroed, and allocated page by page when it is used: an empty map costs neither memory nor
        # time.
        self._words = memoryview(mmap(-1, slots * _SLOT_BYTES)).cast("Q")

    @staticmethod
    def entries_within(size_bytes: int) -> int:
        """The largest number of entries of a map that takes at most this much memory."""
        slots = max(_SLOTS_MIN, 1 << (max(1, size_bytes // _SLOT_BYTES).bit_length() - 1))
        return slots * 3 // 4 - 1

    def put(self, key: bytes, offset: int) -> None:
        first, second = _HASH.unpack(blake2b(key, digest_size=16).digest())
        words, mask = self._words, self._mask
        slot = first & mask
        while True:
            word = slot * _SLOT_WORDS
            if not words[word + 2]:
                assert self.entries < self.entries_max, f"a map for {self.entries_max} keys is full"
                self.entries += 1
                words[word], words[word + 1], words[word + 2] = first, second, offset + 1
                return
            if words[word] == first and words[word + 1] == second:
                words[word + 2] = offset + 1
                return
            slot = (slot + 1) & mask

    def get(self, key: bytes) -> int | None:
        first, second = _HASH.unpack(blake2b(key, digest_size=16).digest())
        words, mask = self._words, self._mask
        slot = first & mask
        while True:
            word = slot * _SLOT_WORDS
            taken: int = words[word + 2]
            if not taken:
                return None
            if words[word] == first and words[word + 1] == second:
                return taken - 1
            slot = (slot + 1) & mask
