"""What is fuzzed: a decoder, the inputs that it must take, and what it may raise for all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from semel.errors import DecodeError


@dataclass(frozen=True, slots=True)
class Target:
    """``sound`` makes an input that must be taken; ``check`` decodes one and raises AssertionError for a broken law.

    The law that most have: what was decoded and is encoded again decodes to the same.
    """

    name: str
    sound: Callable[[Random], bytes]
    check: Callable[[bytes], None]
    refusals: tuple[type[Exception], ...] = (DecodeError,)
    """Anything else that ``check`` raises is a finding."""
    mended: Callable[[bytes], bytes] | None = None
    """Makes the checksum and the sizes of a mutated input right, so that what is behind them is reached."""
    unpacked_bytes_max: int = 0
    """How much an input may unpack to, whatever its own size."""
    is_served: bool = True
    """Whether sound inputs are taken. Old message formats are refused, and must be refused well."""
    rounds: int = 1
    """How often it has its turn where others have it once."""
