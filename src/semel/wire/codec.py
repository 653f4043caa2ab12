"""Messages to bytes and back, in a version that the caller names.

Nothing is compiled before it is used: the first call for a (class, version) pair generates its function, later calls
find it. Hot paths fetch the function once, with ``encoder`` and ``decoder``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from semel.types import Buffer
from semel.wire.decoding import SlicedDecoder, compile_decoder, compile_sliced_decoder
from semel.wire.encoding import Encoder, SlicedEncoder, compile_encoder, compile_sliced_encoder
from semel.wire.schema import versions_of

T = TypeVar("T")

_encoders: dict[tuple[type[Any], int], Encoder] = {}
_decoders: dict[tuple[type[Any], int], Callable[..., Any]] = {}
_sliced_encoders: dict[tuple[type[Any], int], SlicedEncoder] = {}
_sliced_decoders: dict[tuple[type[Any], int], SlicedDecoder] = {}


def encode(message: object, version: int) -> bytearray:
    """The bytes of a message, without header or size."""
    return encoder(type(message), version)(message, bytearray(), None)


def decode(message_class: type[T], buffer: Buffer, version: int, position: int = 0) -> T:
    """The message that fills ``buffer`` from ``position`` to its end, else ``DecodeError``.

    Records fields are slices of ``buffer``; everything else is copied out of it.
    """
    return decoder(message_class, version)(buffer, position)


def encoder(message_class: type[Any], version: int) -> Encoder:
    """``encode(message, out, parts)``: see ``semel.wire.encoding.compile_encoder``."""
    found = _encoders.get((message_class, version))
    if found is None:
        _require(message_class, version)
        found = _encoders[message_class, version] = compile_encoder(message_class, version)
    return found


def decoder(message_class: type[T], version: int) -> Callable[[Buffer, int], T]:
    """``decode(buffer, position)``: see ``semel.wire.decoding.compile_decoder``."""
    found = _decoders.get((message_class, version))
    if found is None:
        _require(message_class, version)
        found = _decoders[message_class, version] = compile_decoder(message_class, version)
    return found


def sliced_encoder(message_class: type[Any], version: int) -> SlicedEncoder:
    """For a large message: see ``semel.wire.encoding.compile_sliced_encoder``."""
    found = _sliced_encoders.get((message_class, version))
    if found is None:
        _require(message_class, version)
        found = _sliced_encoders[message_class, version] = compile_sliced_encoder(message_class, version)
    return found


def sliced_decoder(message_class: type[Any], version: int) -> SlicedDecoder:
    """For a large message, or one that a stranger sent: see ``semel.wire.decoding.compile_sliced_decoder``."""
    found = _sliced_decoders.get((message_class, version))
    if found is None:
        _require(message_class, version)
        found = _sliced_decoders[message_class, version] = compile_sliced_decoder(message_class, version)
    return found


def _require(message_class: type[Any], version: int) -> None:
    versions = versions_of(message_class)
    if not versions.first <= version <= versions.last:
        raise ValueError(
            f"{message_class.__name__} has versions {versions.first} to {versions.last}, and none that is {version}"
        )
