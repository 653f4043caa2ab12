"""Mutations of bytes: flips, cuts, insertions, splices with other inputs, wrong lengths, and nesting.

The law: the same ``Random`` gives the same mutations, and a mutated input is at most ``GROWTH_BYTES_MAX`` bytes longer
than the original, so that the time of a run does not grow with the number of mutations.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Final

GROWTH_BYTES_MAX: Final = 4096

_NUMBERS: Final = (-(2**31), -2, -1, 0, 1, 4, 100, 2**15, 2**24, 2**31 - 1)
_HOSTILE: Final = (
    *(struct.pack(">i", number) for number in _NUMBERS),
    struct.pack(">h", -1),
    struct.pack(">h", 2**15 - 1),
    struct.pack(">q", -1),
    struct.pack(">q", 2**63 - 1),
    struct.pack(">q", -(2**63)),
    b"\xff\xff\xff\xff\x07",  # The largest length of a compact array.
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 10,  # A variable-length integer that does not end.
    b"\xff" * 9 + b"\x01",
    b"\0",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xed\xa0\x80",  # UTF-8 of half a surrogate pair.
    b"99999999999999999999",
    b"NaN",
    b"\n",
)
_NESTED: Final = (b"[", b'{"a":', b"(", b"\x02", b'"')


def mutated(data: bytes, other: bytes, random: Random) -> bytes:
    """Return ``data`` with one to three changes. ``other`` is an input to splice it with."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _change(changed, other, random)
    return bytes(changed[: len(data) + GROWTH_BYTES_MAX])


def _change(data: bytearray, other: bytes, random: Random) -> None:
    at = random.randint(0, len(data))
    match random.randrange(9):
        case 0 | 1 if data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        case 2:
            del data[at:]
        case 3:
            del data[at : at + random.choice((1, 2, 4, 16))]
        case 4:
            data[at:at] = random.randbytes(random.randint(1, 16))
        case 5 | 6:
            hostile = random.choice(_HOSTILE)
            data[at : at + random.choice((0, 1, len(hostile)))] = hostile
        case 7:
            start = random.randint(0, len(other))
            data[at : random.choice((at, len(data)))] = other[start : start + random.choice((4, 40, 400))]
        case _ if random.random() < 0.1:
            data[at:at] = random.choice(_NESTED) * random.choice((10, 1000, GROWTH_BYTES_MAX))
        case _:
            # Repeat a piece of the input, which makes an array with too many elements, for example.
            piece = data[at : at + random.choice((1, 8, 64))]
            data[at:at] = piece * random.choice((1, 2, 30))
