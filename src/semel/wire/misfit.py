"""Finds the value that does not fit its declaration, after an encoder has failed on it.

A message that cannot be encoded is a bug of the code that built it, and "'h' format requires -32768 <= number" does not
help to find it. This module runs only after such a failure, so it may be slow.
"""

from __future__ import annotations

import struct
from typing import Any

from semel.wire import schema


def misfit(message: object, version: int) -> ValueError:
    """Return an error that names the first invalid value, and why it is invalid."""
    title = f"{type(message).__name__} v{version}"
    found = _in_struct(message, version)
    return ValueError(f"{title}: {found}" if found else f"{title} cannot be encoded")


def _in_struct(holder: Any, version: int) -> str | None:
    for field in schema.fields_of(type(holder)):
        if not field.exists_in(version):
            continue
        value = getattr(holder, field.name)
        if value is None and (field.absent is not None or field.nullable_in(version)):
            continue
        wrong = _in_value(field.type, value, version)
        if wrong is not None:
            return f"{field.name}{wrong}"
    return None


def _in_value(wire_type: schema.WireType[Any], value: Any, version: int) -> str | None:
    """Return what is wrong with a value, as a text to follow its name, or ``None`` if it is valid."""
    match wire_type:
        case schema.Fixed():
            try:
                struct.pack(">" + wire_type.code, value)
            except struct.error as error:
                return f" is {value!r}: {error}"
        case schema.Array():
            if not isinstance(value, list | tuple):
                return f" is {value!r}, not a list"
            for index, element in enumerate(value):
                wrong = _in_value(wire_type.element, element, version)
                if wrong is not None:
                    return f"[{index}]{wrong}"
        case schema.Struct():
            if not isinstance(value, wire_type.struct_class):
                return f" is {value!r}, not a {wire_type.struct_class.__name__}"
            wrong = _in_struct(value, version)
            return None if wrong is None else f".{wrong}"
        case schema.String():
            return _in_string(value)
        case schema.Bytes() | schema.Records():
            if not isinstance(value, bytes | bytearray | memoryview):
                return f" is {value!r}, not bytes"
        case schema.Uuid():
            if len(getattr(value, "bytes", b"")) != 16:
                return f" is {value!r}, not a UUID"
    return None


def _in_string(value: Any) -> str | None:
    if not isinstance(value, str):
        return f" is {value!r}, not a string"
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as error:
        return f" is not text: {error}"
    if size_bytes > schema.STRING_SIZE_BYTES_MAX:
        return f" has {size_bytes} bytes; a string has at most {schema.STRING_SIZE_BYTES_MAX}"
    return None
