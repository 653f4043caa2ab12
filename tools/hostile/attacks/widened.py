"""Attacks with the longest possible lists: one for each list in each request that is served.

The lists are found in the declarations of the requests and filled up to a frame of 20 MB. A list inside a list is
reached through one element of the outer one. Strings are a short name, so that no request is refused because a string
is empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

from semel.broker.requests.routes import served_apis
from semel.wire.apis import Api
from semel.wire.codec import encode
from semel.wire.schema import Array, Field, Fixed, String, Struct, WireType, fields_of
from tools.hostile.attack_context import Attack, AttackContext, add
from tools.hostile.attacks.requests import frame_of

FRAME_BYTES = 20 * 2**20
# A request with more than a hundred thousand elements is refused because of their number: one size is served, one not.
ELEMENTS_MAX = (95_000, 1_000_000)

# With these values nothing is created, and there is a response.
CHOSEN = {"validate_only": True, "acks": -1}


def lists_of(struct_class: type[Any], version: int) -> Iterator[tuple[Field, ...]]:
    """Return the path to every list in a message, as a tuple of fields."""
    for field in fields_of(struct_class):
        if not field.exists_in(version):
            continue
        inner = field.type
        if isinstance(inner, Array):
            yield (field,)
            inner = inner.element
        if isinstance(inner, Struct):
            yield from ((field, *rest) for rest in lists_of(inner.struct_class, version))


def widened(struct_class: type[Any], way: tuple[Field, ...], version: int, count: int) -> Any:
    """Return a message whose list at the end of ``way`` has ``count`` elements."""
    values: dict[str, Any] = {}
    for field in fields_of(struct_class):
        if way and field.name == way[0].name:
            if len(way) == 1:
                assert isinstance(field.type, Array)
                values[field.name] = [_element(field.type.element)] * count
            elif isinstance(field.type, Array):
                assert isinstance(field.type.element, Struct)
                values[field.name] = [widened(field.type.element.struct_class, way[1:], version, count)]
            elif isinstance(field.type, Struct):
                values[field.name] = widened(field.type.struct_class, way[1:], version, count)
        elif isinstance(field.type, String) and field.exists_in(version):
            values[field.name] = "wide"
    return struct_class(**values)


def _element(wire_type: WireType[Any]) -> Any:
    match wire_type:
        case String():
            return "wide"
        case Fixed():
            return wire_type.zero
        case Struct():
            texts = [field for field in fields_of(wire_type.struct_class) if isinstance(field.type, String)]
            return wire_type.struct_class(**{field.name: "wide" for field in texts})
        case _:
            return b""


def _run(api: Api, way: tuple[Field, ...], context: AttackContext) -> None:
    version = api.max_version
    one, two = (len(encode(widened(api.request_class, way, version, count), version)) for count in (1, 2))
    for elements in ELEMENTS_MAX:
        count = min(context.times(FRAME_BYTES) // max(1, two - one), context.times(elements))
        message = widened(api.request_class, way, version, max(1, count))
        for name, value in CHOSEN.items():
            if any(field.name == name for field in fields_of(api.request_class)):
                message = dataclasses.replace(message, **{name: value})
        frame = frame_of(api.key, version, message)
        with context.connect(timeout_s=30) as client:
            context.noted(client.ask_frame(api.key, version, frame))


for _api in served_apis():
    for _way in lists_of(_api.request_class, _api.max_version):
        _name = f"wide-{_api.name}-{'-'.join(field.name for field in _way)}".replace("_", "-")
        add(Attack(_name, partial(_run, _api, _way)))
