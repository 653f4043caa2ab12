"""The first oracle: kio, one class per message and version. The bridge goes from our fields to its fields by name.

kio has richer Python types than the wire: error codes are an enum, durations and times are datetime's, and the zero
UUID is None. It drops the unit from the name of a field whose type says it.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import re
import typing
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta, i64Timedelta

from semel.types import ZERO_UUID
from semel.wire.schema import fields_of


def encode_with_kio(message: Any, version: int, *, with_its_defaults: bool = False) -> bytes:
    """The bytes that kio writes for this message.

    ``with_its_defaults``: where kio has a default of its own, that is written in place of the message's value.
    """
    kio_class = _kio_class(type(message), version)
    out = io.BytesIO()
    entity_writer(kio_class)(out, _converted(message, kio_class, with_its_defaults))
    return out.getvalue()


@cache
def _kio_class(message_class: type[Any], version: int) -> type[Any]:
    api, kind = re.fullmatch(r"(\w+)(Request|Response)", message_class.__name__).groups()  # type: ignore[union-attr]
    snake_case = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    module = importlib.import_module(f"kio.schema.{snake_case}.v{version}.{kind.lower()}")
    return getattr(module, message_class.__name__)  # type: ignore[no-any-return]


def _converted(struct: Any, kio_class: type[Any], with_its_defaults: bool) -> Any:
    hints = _hints(kio_class)
    absent = {field.name: field.absent for field in fields_of(type(struct))}
    values = {}
    for kio_field in dataclasses.fields(kio_class):
        name, kafka_type = kio_field.name, kio_field.metadata.get("kafka_type")
        our_name = name if hasattr(struct, name) else f"{name}_ms"
        value = getattr(struct, our_name)
        value = absent[our_name] if value is None else value
        has_default = kio_field.default is not dataclasses.MISSING and not (isinstance(value, list) and value)
        if not (with_its_defaults and has_default):
            values[name] = _value(value, kafka_type, hints[name], with_its_defaults)
    return kio_class(**values)


def _value(value: Any, kafka_type: str | None, hint: Any, with_its_defaults: bool) -> Any:
    if isinstance(value, list):
        return tuple(_value(element, kafka_type, hint, with_its_defaults) for element in value)
    match kafka_type:
        case "uuid":
            return None if value == ZERO_UUID else value
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32":
            return i32Timedelta.parse(datetime.timedelta(milliseconds=value))
        case "timedelta_i64":
            return i64Timedelta.parse(datetime.timedelta(milliseconds=value))
        case "datetime_i64":
            if value == -1 and type(None) in typing.get_args(hint):
                return None
            return datetime.datetime.fromtimestamp(value / 1000, tz=datetime.UTC)
    return _converted(value, _struct_class(hint), with_its_defaults) if dataclasses.is_dataclass(value) else value


def _struct_class(hint: Any) -> type[Any]:
    """The one class inside a hint like ``tuple[Topic, ...] | None``."""
    if dataclasses.is_dataclass(hint):
        return hint  # type: ignore[return-value]
    (found,) = (argument for argument in typing.get_args(hint) if argument not in (type(None), ...))
    return _struct_class(found)


@cache
def _hints(kio_class: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kio_class)
