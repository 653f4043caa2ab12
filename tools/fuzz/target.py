"""A target of the fuzzing: a decoder, the inputs that it must accept, and the exceptions it may raise for others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from semel.errors import DecodeError


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder that is fuzzed.

    ``sound`` makes an input that must be accepted. ``check`` decodes an input and raises AssertionError if a law of the
    decoder is broken. The law of most decoders: a decoded value that is encoded again decodes to an equal value.
    """

    name: str
    sound: Callable[[Random], bytes]
    check: Callable[[bytes], None]
    refusals: tuple[type[Exception], ...] = (DecodeError,)
    """The exceptions that ``check`` may raise for an invalid input. Any other exception is a finding."""
    mended: Callable[[bytes], bytes] | None = None
    """Corrects the checksum and the sizes of a mutated input, so that the bytes after them are decoded."""
    unpacked_bytes_max: int = 0
    """How many bytes an input may decompress to, besides its own size."""
    is_served: bool = True
    """Whether sound inputs are accepted. Old message formats must be refused with one of ``refusals``."""
    rounds: int = 1
    """How often the target runs in the time in which others run once."""
