"""The second oracle: kafka-python, one class for all versions, as we have. The bridge goes by name here too.

kafka-python knows no default for tagged fields: what is passed is written, so a default is not passed. It shows
authorized operations as a set of bits, under one name where Kafka has three.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from kafka.protocol.api_message import ApiMessage

from semel.wire.schema import Field, Struct, fields_of

_MODULES = (
    "admin.acl",
    "admin.client_quotas",
    "admin.cluster",
    "admin.configs",
    "admin.groups",
    "admin.topics",
    "admin.transactions",
    "admin.users",
    "consumer.fetch",
    "consumer.group",
    "consumer.metadata",
    "consumer.offsets",
    "metadata.api_versions",
    "metadata.find_coordinator",
    "metadata.metadata",
    "producer.produce",
    "producer.transaction",
    "sasl",
)
_RENAMED = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
}


def encode_with_kafka_python(message: Any, version: int) -> bytes | None:
    """The bytes that kafka-python writes for this message, or None if it does not know the version."""
    foreign_class = _classes().get(type(message).__name__)
    if foreign_class is None or version > foreign_class.max_version:
        return None
    return bytes(_converted(message, foreign_class, version).encode(version=version))


@cache
def _classes() -> dict[str, Any]:
    modules = [importlib.import_module(f"kafka.protocol.{name}") for name in _MODULES]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return {value.__name__: value for value in found if issubclass(value, ApiMessage)}


def _converted(struct: Any, foreign_class: Any, version: int) -> Any:
    values = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if field.exists_in(version) and not (field.tag is not None and value == field.default):
            foreign_name = field.name
            if foreign_name not in foreign_class.fields:
                foreign_name = _RENAMED[foreign_name]
            values[foreign_name] = _value(value, field, foreign_class.fields[foreign_name], version)
    return foreign_class(version=version, **values)


def _value(value: Any, field: Field, foreign_field: Any, version: int) -> Any:
    if value is None:
        value = field.absent
    if foreign_field.type_str == "bitfield":
        return {bit for bit in range(32) if value & 1 << bit}
    if value is None:
        return None
    if foreign_field.is_struct_array():
        return [_converted(element, foreign_field.data_class, version) for element in value]
    if isinstance(field.type, Struct):
        return _converted(value, foreign_field.data_class, version)
    return value
