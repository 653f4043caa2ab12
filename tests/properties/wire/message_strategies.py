"""Random messages, derived from their declarations: whatever a declaration allows in some version can come out."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from semel.errors import ErrorCode
from semel.types import ZERO_UUID, Buffer
from semel.wire import schema
from semel.wire.apis import APIS
from semel.wire.codec import encoder

LAST_MILLISECOND_OF_9999 = 253_402_300_799_999


def message_classes() -> list[type[Any]]:
    return [message_class for api in APIS.values() for message_class in (api.request_class, api.response_class)]


def versions(message_class: type[Any]) -> range:
    declared = schema.versions_of(message_class)
    return range(declared.first, declared.last + 1)


@cache
def messages(struct_class: type[Any]) -> st.SearchStrategy[Any]:
    """Messages with a value in every field, of all versions at once: ``as_of`` makes one version of them."""
    return st.builds(struct_class, **{field.name: _values(field) for field in schema.fields_of(struct_class)})


def with_one_of_each(struct_class: type[Any]) -> Any:
    """Nothing but defaults, and one element in every array of structs, so that their defaults show too."""
    elements = {
        field.name: [with_one_of_each(field.type.element.struct_class)]
        for field in schema.fields_of(struct_class)
        if isinstance(field.type, schema.Array) and isinstance(field.type.element, schema.Struct)
    }
    return struct_class(**elements)


def legal_in(message: Any, version: int) -> Any:
    """The same message, with something empty wherever it has a null that the version does not allow."""
    return _replaced(message, version, lambda field, value: value)


def as_kafka_knows(message: Any) -> Any:
    """The same message without the tagged fields that are our own."""
    changes: dict[str, Any] = {}
    for field in schema.fields_of(type(message)):
        value = getattr(message, field.name)
        if field.tag is not None and field.tag >= schema.OWN_TAGS_SINCE:
            value = field.default
        elif isinstance(field.type, schema.Struct) and value is not None:
            value = as_kafka_knows(value)
        elif isinstance(field.type, schema.Array) and isinstance(field.type.element, schema.Struct) and value:
            value = [as_kafka_knows(element) for element in value]
        changes[field.name] = value
    return dataclasses.replace(message, **changes)


def as_of(message: Any, version: int) -> Any:
    """What is left of the message after a trip through one version: defaults in every field that it does not carry."""
    return _replaced(message, version, lambda field, value: field.default)


def encode_parts(message: object, version: int) -> list[Buffer]:
    """The bytes of a message in pieces: a large records field is its own piece, the very buffer of the message."""
    parts: list[Buffer] = []
    parts.append(encoder(type(message), version)(message, bytearray(), parts))
    return parts


def _replaced(message: Any, version: int, absent: Callable[[schema.Field, Any], Any]) -> Any:
    changes: dict[str, Any] = {}
    for field in schema.fields_of(type(message)):
        value = getattr(message, field.name)
        if not field.exists_in(version):
            value = absent(field, value)
        elif value is None:
            value = None if field.absent is not None or field.nullable_in(version) else _empty(field)
        elif isinstance(field.type, schema.Struct):
            value = _replaced(value, version, absent)
        elif isinstance(field.type, schema.Array) and isinstance(field.type.element, schema.Struct):
            value = [_replaced(element, version, absent) for element in value]
        changes[field.name] = value
    return dataclasses.replace(message, **changes)


def _values(field: schema.Field) -> st.SearchStrategy[Any]:
    values = _values_of_type(field.type, field.name)
    if field.absent is not None:
        values = st.none() | values.filter(lambda value: value != field.absent)
    if field.nullable_since is not None:
        values = st.none() | values
    if field.tag is not None:
        # The default is the one value that leaves no trace on the wire.
        values = st.just(field.default) | values
    return values


def _values_of_type(wire_type: schema.WireType[Any], name: str) -> st.SearchStrategy[Any]:
    match wire_type:
        case schema.Fixed(code="?"):
            return st.booleans()
        case schema.Fixed(code="d"):
            return st.floats(allow_nan=False)
        case schema.Fixed(code="h") if name.endswith("error_code"):
            return st.sampled_from([int(code) for code in ErrorCode])
        case schema.Fixed(code="q") if name.endswith("_ms"):
            return st.integers(0, LAST_MILLISECOND_OF_9999) | st.just(-1)
        case schema.Fixed():
            bits = 8 * struct.calcsize(wire_type.code)
            signed = wire_type.code.islower()
            return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)
        case schema.Uuid():
            return st.uuids() | st.just(ZERO_UUID)
        case schema.String():
            # 126, 127 and 128 bytes stand on both sides of the step from one to two bytes of compact length.
            return st.text(max_size=8) | st.sampled_from(["x" * 126, "x" * 127, "é" * 64])
        case schema.Bytes() | schema.Records():
            return st.binary(max_size=16) | st.sampled_from([b"x" * 127, b"x" * 20_000])
        case schema.Array():
            return st.lists(_values_of_type(wire_type.element, name), max_size=3)
        case schema.Struct():
            return messages(wire_type.struct_class)
    raise AssertionError(wire_type)


def _empty(field: schema.Field) -> Any:
    match field.type:
        case schema.String():
            return ""
        case schema.Bytes() | schema.Records():
            return b""
        case schema.Array():
            return []
        case schema.Struct():
            return field.type.struct_class()
    raise AssertionError(f"{field.name} is not a field that can be null")
