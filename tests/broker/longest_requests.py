"""Requests of every API and version, with strings as long as they may be in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from semel.wire.schema import Array, String, Struct, fields_of

# Numbers with which a request gets further than the first check.
_SENSIBLE = {
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 1,
    "timeout_ms": 1000,
    "transaction_timeout_ms": 60_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "acks": -1,
    "resource_type": 2,
}
_TOPIC_FIELDS = ("name", "topic", "topic_name", "resource_name", "topic_names", "topics")


def requests(request_class: type[Any], topic: str, text: Callable[[], str]) -> Iterator[Any]:
    """With every string long, and with the names of topics short so that they are found."""
    yield _filled(request_class, lambda name: text())
    yield _filled(request_class, lambda name: topic if name in _TOPIC_FIELDS else text())
    yield _filled(request_class, lambda name: "" if name == "member_id" else topic if name in _TOPIC_FIELDS else text())


def _filled(struct_class: type[Any], text: Callable[[str], str]) -> Any:
    changes: dict[str, Any] = {}
    for field in fields_of(struct_class):
        match field.type:
            case String():
                changes[field.name] = text(field.name)
            case Array(element=String()):
                changes[field.name] = [text(field.name)]
            case Array(element=Struct() as element):
                changes[field.name] = [_filled(element.struct_class, text)]
            case Struct():
                if field.default is not None:
                    changes[field.name] = _filled(field.type.struct_class, text)
            case _:
                if field.name in _SENSIBLE:
                    changes[field.name] = _SENSIBLE[field.name]
    return dataclasses.replace(struct_class(), **changes)
