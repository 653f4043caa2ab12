"""The int16 at the beginning of each key and value of ``__consumer_offsets``.

In a key it is the kind of the record, in a value the version of the value.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.codec import decoder, encoder
from semel.wire.schema import versions_of

_VERSION: Final = Struct(">h")
VERSION_SIZE_BYTES: Final = _VERSION.size

T = TypeVar("T")


def versioned(message: object, version: int, *, prefix: int | None = None) -> bytes:
    """Encode a key or a value. ``prefix`` is the int16 at its beginning, if that is not the version."""
    buffer = bytearray(_VERSION.pack(version if prefix is None else prefix))
    return bytes(encoder(type(message), version)(message, buffer, None))


def read_value(value_class: type[T], value: Buffer) -> T:
    version = read_version(value, value_class.__name__)
    versions = versions_of(value_class)
    if not versions.first <= version <= versions.last:
        raise DecodeError(
            f"{value_class.__name__} of version {version}; {versions.first} to {versions.last} can be read"
        )
    return decoder(value_class, version)(value, VERSION_SIZE_BYTES)


def read_version(data: Buffer, name: str) -> int:
    if len(data) < VERSION_SIZE_BYTES:
        raise DecodeError(f"{name} of {len(data)} bytes in __consumer_offsets; it begins with a version of two bytes")
    version: int = _VERSION.unpack_from(data)[0]
    return version
