from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from semel.console.avro_values import DEPTH_MAX, RECURSIVE_BYTES_MAX, NotDecoded, SchemaRefused, parse_schema

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": ["null", "string", "State"]}}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "was", "type": "shop.State"},
    ],
}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "of", "type": {"type": "array", "items": "Tree"}}]}
LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def encoded(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def test_a_value_is_decoded_with_its_schema() -> None:
    order = {"id": 7, "state": "PAID", "lines": [{"a": "b", "c": None}], "hash": b"\x00\xff", "was": "NEW"}
    assert parse_schema(json.dumps(ORDER)).decoded(encoded(ORDER, order)) == order


def test_a_schema_may_contain_itself_where_a_choice_or_a_list_ends_it() -> None:
    tree = {"of": [{"of": []}, {"of": [{"of": []}]}]}
    assert parse_schema(json.dumps(TREE)).decoded(encoded(TREE, tree)) == tree
    assert parse_schema(json.dumps(LIST)).decoded(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}


def test_a_value_that_would_be_thousands_of_levels_deep_is_not_decoded() -> None:
    """The decoder would end the process."""
    with pytest.raises(NotDecoded, match=f"up to {RECURSIVE_BYTES_MAX} are decoded"):
        parse_schema(json.dumps(LIST)).decoded(b"\x02" * 100_000 + b"\x00")


def doubled(levels: int) -> dict[str, Any]:
    """Two records of two records, and so on, and at the end null: 2 ** levels parts, and not one byte."""
    schema: Any = "null"
    for level in range(levels):
        name = f"R{level}"
        again = "null" if level == 0 else f"R{level - 1}"
        schema = {
            "type": "record",
            "name": name,
            "fields": [{"name": "a", "type": schema}, {"name": "b", "type": again}],
        }
    found: dict[str, Any] = schema
    return found


def nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array", "items": "null"}, "a list of elements that take no bytes"),
        (
            {"type": "array", "items": {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}},
            "a list of elements that take no bytes",
        ),
        (
            {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
            "a list of elements that take no bytes",
        ),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": -9}}, "elements that take no bytes"),
        ({"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]}, "contains itself without end"),
        (doubled(30), "too many parts that take no bytes"),
        (nested(DEPTH_MAX + 2), "nested more than"),
        (nested(5_000), "cannot be read|nested more than"),
        ({"type": "record", "name": "N", "fields": [{"name": "n", "type": "Unknown"}]}, "cannot be read"),
        ({}, "cannot be read"),
        (7, "cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_schema_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(SchemaRefused, match=why):
        parse_schema(_text(schema))


def _text(schema: Any) -> str:
    """As JSON, without recursion."""
    depth, inner = 0, schema
    while isinstance(inner, dict) and inner.get("type") == "array":
        depth, inner = depth + 1, inner["items"]
    return '{"type": "array", "items": ' * depth + json.dumps(inner) + "}" * depth


@pytest.mark.parametrize("payload", [b"", b"\x02", b"\x0e\x02\x00\x00\xff\x00 and more", b"\xff" * 20])
def test_bytes_that_are_not_of_the_schema_are_not_decoded(payload: bytes) -> None:
    with pytest.raises(NotDecoded, match="not of this schema"):
        parse_schema(json.dumps(ORDER)).decoded(payload)


def test_a_large_value_is_not_decoded() -> None:
    with pytest.raises(NotDecoded, match="are decoded"):
        parse_schema('"bytes"').decoded(bytes(100_000))


@pytest.mark.parametrize("text", [None, 7, "", "[", b"\xff"])
def test_what_is_no_schema_is_refused(text: Any) -> None:
    with pytest.raises(SchemaRefused, match="cannot be read"):
        parse_schema(text)
