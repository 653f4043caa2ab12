"""Schemas from a registry, within bounds; and records that are decoded with them."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from semel import blocking
from semel.console import schema_registry
from semel.console.app import Rules
from semel.console.schema_registry import ASKED_MAX, WINDOW_S, NoSchema, SchemaRegistry
from semel.testing import Broker
from tests.console.fake_registry import FakeRegistry, running_registry
from tests.console.visitor import Visitor, running_console
from tools.patience import PATIENCE_S

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}],
}


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


def why_not(schemas: SchemaRegistry, schema_id: int) -> str:
    with pytest.raises(NoSchema) as found:
        schemas.schema(schema_id)
    return str(found.value)


def test_a_schema_is_asked_for_once(registry: FakeRegistry) -> None:
    registry.has(7, ORDER)
    clock = Clock()
    schemas = SchemaRegistry(registry.url, clock)
    assert schemas.schema(7).kind == "AVRO"
    clock.now_s += 100 * WINDOW_S
    assert schemas.schema(7).avro is not None
    assert registry.asked == ["/base/schemas/ids/7"]


def test_what_is_not_there_is_asked_for_again_later(registry: FakeRegistry) -> None:
    clock = Clock()
    schemas = SchemaRegistry(registry.url, clock)
    assert [why_not(schemas, 7) for _ in range(3)] == ["the registry has no schema of this id"] * 3
    assert len(registry.asked) == 1
    registry.has(7, ORDER)
    clock.now_s += WINDOW_S + 1
    assert schemas.schema(7).kind == "AVRO"


def test_so_many_questions_are_asked_in_a_few_seconds_and_no_more(registry: FakeRegistry) -> None:
    clock = Clock()
    schemas = SchemaRegistry(registry.url, clock)
    said = {why_not(schemas, number) for number in range(ASKED_MAX + 20)}
    assert len(registry.asked) == ASKED_MAX
    assert any("asked too much" in one for one in said)
    clock.now_s += WINDOW_S + 1
    why_not(schemas, 10_000)
    assert len(registry.asked) == ASKED_MAX + 1


def test_a_registry_that_is_away_is_asked_once_for_a_page() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    schemas = SchemaRegistry(f"http://127.0.0.1:{port}", Clock())
    assert why_not(schemas, 1) == "the registry does not answer (ConnectionRefusedError)"
    assert "asked too much, or is slow" in why_not(schemas, 2)


def test_a_registry_that_is_slow_is_not_waited_for_again_and_again(registry: FakeRegistry) -> None:
    clock = Clock()

    def takes_its_time() -> None:
        clock.now_s += 2.0

    registry.takes = takes_its_time
    schemas = SchemaRegistry(registry.url, clock)
    said = [why_not(schemas, number) for number in range(6)]
    assert ["is slow" in one for one in said] == [False] * 3 + [True] * 3
    assert len(registry.asked) == 3


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"x" * (schema_registry.ANSWER_BYTES_MAX + 1), 200, "larger than"),
        (b"<html>", 200, "no schema"),
        (b"[]", 200, "no schema"),
        (b"[" * 100_000, 200, "no schema"),
        (b"{}", 200, "no schema"),
        (json.dumps({"schema": '{"type": "array", "items": "null"}'}).encode(), 200, "take no bytes"),
        (json.dumps({"schema": '"int"', "references": [{"name": "x"}]}).encode(), 200, "refers to other schemas"),
        (b"", 500, "answers 500"),
        (b"http://127.0.0.1:1/elsewhere", 302, "answers 302"),
    ],
)
def test_an_answer_that_cannot_be_used_is_said_in_a_few_words(
    registry: FakeRegistry, body: bytes, status: int, why: str
) -> None:
    registry.answers(1, body, status)
    assert why in why_not(SchemaRegistry(registry.url), 1)


@pytest.mark.parametrize("url", ["registry:8081", "file:///etc/passwd", "http://", "http://u:p@host", "http://h:x"])
def test_what_cannot_be_a_registry_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SchemaRegistry(url)


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def avro(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1) as running:
        yield running


def shown(broker: Broker, registry: FakeRegistry | None, value: bytes, key: bytes | None = None) -> str:
    """What a page says of this record."""
    settings = {"bootstrap_servers": broker.bootstrap_servers}
    with blocking.Producer(**settings) as producer:
        written = producer.send("framed", value, key=key).result(PATIENCE_S)
    url = None if registry is None else registry.url
    with running_console(settings, Rules(schema_registry=url)) as port:
        page = Visitor(port).get("/topic", name="framed", partition=0, offset=written.offset)
    assert "<script>" not in page.body
    return page.text


def test_a_record_in_avro_is_decoded_and_names_its_schema(broker: Broker, registry: FakeRegistry) -> None:
    registry.has(7, ORDER)
    registry.has(8, "string")
    order = {"customer": "<script>alert(1)</script>", "cents": 199}
    text = shown(broker, registry, framed(7, avro(ORDER, order)), framed(8, avro("string", "c-1")))
    assert '{ "customer": "<script>alert(1)</script>", "cents": 199 } Avro, schema 7' in text
    assert '"c-1" Avro, schema 8' in text


def test_a_record_of_a_json_schema_is_its_json(broker: Broker, registry: FakeRegistry) -> None:
    registry.has(9, {"type": "object"}, schemaType="JSON")
    assert '{ "a": 1 } JSON, schema 9' in shown(broker, registry, framed(9, b'{"a":1}'))


def test_what_is_not_decoded_is_shown_in_hexadecimal_and_says_why(broker: Broker, registry: FakeRegistry) -> None:
    registry.has(7, ORDER)
    registry.has(10, "protobuf", schemaType="PROTOBUF")
    assert "00 00 00 00 63 61 schema 99: the registry has no schema of this id" in shown(
        broker, registry, framed(99, b"a")
    )
    assert "schema 10: values of PROTOBUF are not decoded" in shown(broker, registry, framed(10, b"a"))
    assert "schema 7: the bytes are not of this schema" in shown(broker, registry, framed(7, b"\xff\xff\xff"))


def test_bytes_without_the_frame_ask_for_nothing(broker: Broker, registry: FakeRegistry) -> None:
    assert "plain text" in shown(broker, registry, b"plain text")
    assert "00 01" in shown(broker, registry, b"\x00\x01")  # Too short for a schema's id.
    assert registry.asked == []


def test_without_a_registry_nothing_is_decoded(broker: Broker) -> None:
    text = shown(broker, None, framed(7, b"a"))
    assert "00 00 00 00 07 61" in text
    assert "schema 7" not in text
