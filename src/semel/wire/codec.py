"""Encodes and decodes messages, in a version that the caller names.

The functions are compiled on first use: the first call for a (class, version) pair generates its function, later calls
use it again. Hot paths get the function once, with ``encoder`` and ``decoder``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from semel.types import Buffer
from semel.wire.decoding import SlicedDecoder, compile_decoder, compile_sliced_decoder
from semel.wire.encoding import Encoder, SlicedEncoder, compile_encoder, compile_sliced_encoder
from semel.wire.schema import versions_of

T = TypeVar("T")
Function = TypeVar("Function")


def encode(message: object, version: int) -> bytearray:
    """Return the bytes of a message, without header or size."""
    return encoder(type(message), version)(message, bytearray(), None)


def decode(message_class: type[T], buffer: Buffer, version: int, position: int = 0) -> T:
    """Return the message that fills ``buffer`` from ``position`` to its end. Raises ``DecodeError``.

    Records fields are slices of ``buffer``; everything else is copied out of it.
    """
    return decoder(message_class, version)(buffer, position)


def encoder(message_class: type[Any], version: int) -> Encoder:
    """Return the function ``encode(message, out, parts)``: see ``semel.wire.encoding.compile_encoder``."""
    return _encoders[message_class, version]


def decoder(message_class: type[T], version: int) -> Callable[[Buffer, int], T]:
    """Return the function ``decode(buffer, position)``: see ``semel.wire.decoding.compile_decoder``."""
    return _decoders[message_class, version]


def request_decoder(message_class: type[T], version: int) -> Callable[[Buffer, int], T]:
    """Return the decoder for requests of clients, which ignores trailing bytes, as Kafka does.

    Some clients send such bytes: a null array as four bytes, say, where the version has one.
    """
    return _request_decoders[message_class, version]


def sliced_encoder(message_class: type[Any], version: int) -> SlicedEncoder:
    """Return the encoder in slices, for a large message: see ``semel.wire.encoding.compile_sliced_encoder``."""
    return _sliced_encoders[message_class, version]


def sliced_decoder(message_class: type[Any], version: int) -> SlicedDecoder:
    """Return the decoder of requests in slices, for large ones: like ``request_decoder`` it ignores trailing bytes.

    See ``semel.wire.decoding.compile_sliced_decoder``.
    """
    return _sliced_decoders[message_class, version]


class _Compiled(dict[tuple[type[Any], int], Function]):
    """Compiled functions by message class and version. Each is compiled when it is first looked up."""

    def __init__(self, compile_function: Callable[[type[Any], int], Function]) -> None:
        self._compile_function = compile_function

    def __missing__(self, key: tuple[type[Any], int]) -> Function:
        message_class, version = key
        versions = versions_of(message_class)
        if not versions.first <= version <= versions.last:
            raise ValueError(
                f"{message_class.__name__} has versions {versions.first} to {versions.last}, and none that is {version}"
            )
        self[key] = found = self._compile_function(message_class, version)
        return found


_encoders: Final[_Compiled[Encoder]] = _Compiled(compile_encoder)
_decoders: Final[_Compiled[Callable[..., Any]]] = _Compiled(compile_decoder)
_request_decoders: Final[_Compiled[Callable[..., Any]]] = _Compiled(partial(compile_decoder, open_ended=True))
_sliced_encoders: Final[_Compiled[SlicedEncoder]] = _Compiled(compile_sliced_encoder)
_sliced_decoders: Final[_Compiled[SlicedDecoder]] = _Compiled(compile_sliced_decoder)
