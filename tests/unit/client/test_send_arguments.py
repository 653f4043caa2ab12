"""The arguments of ``send`` and ``send_many`` are checked in the call: what is wrong with them is raised there by name.

No broker is needed: what passes waits for one, and what does not is raised before anything was taken.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semel import Producer, blocking
from semel.client.arrow.bulk import as_rows
from semel.client.config.producer import ProducerConfig
from semel.client.hooks import Hooks
from semel.client.machine.producer.producer import ProducerMachine
from semel.client.offsets import as_offsets
from semel.client.send_queue import SendQueue
from semel.client.values import OffsetAndMetadata
from tests.unit.client.machine.machine_bench import Bench
from tests.unit.client.machine.model_cluster import ModelCluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)

WRONG_TYPES = [
    ({"timestamp": 1_700_000_000_000.0}, r"timestamp is 1700000000000.0 of type float: it is an int"),
    ({"timestamp": 0.5}, "timestamp is 0.5 of type float"),
    ({"timestamp": NOW}, "timestamp is datetime.* of type datetime"),
    ({"timestamp": True}, "timestamp is True of type bool"),
    ({"timestamp": "1700000000000"}, "timestamp is '1700000000000' of type str"),
    ({"topic": b"orders"}, "topic is b'orders' of type bytes: the name of a topic is a str"),
    ({"topic": None}, "topic is None of type NoneType"),
    ({"topic": ["orders"]}, r"topic is \['orders'\] of type list"),
    ({"partition": 1.0}, "partition is 1.0 of type float: the number of a partition is an int"),
    ({"partition": "1"}, "partition is '1' of type str"),
    ({"partition": True}, "partition is True of type bool"),
    ({"value": "text"}, "value is a str: key and value of a record are bytes or None"),
    ({"value": 7}, "value is a int"),
    ({"key": "text"}, "key is a str"),
    ({"key": 7}, "key is a int"),
    ({"headers": {"a": "text"}}, "headers is {'a': 'text'} of type dict: headers are a dict, or pairs, of a str"),
    ({"headers": {1: b"a"}}, "headers is {1: b'a'}"),
    ({"headers": [("a", b"1", 2)]}, "headers is"),
    ({"headers": "ab"}, "headers is 'ab'"),
    ({"headers": 7}, "headers is 7 of type int"),
    ({"headers": {"\ud800": b""}}, "headers is"),
]

WRONG_VALUES = [
    ({"timestamp": -1}, "timestamp -1: it is counted in milliseconds since 1970"),
    ({"timestamp": 2**63}, "timestamp 9223372036854775808"),
    ({"partition": -1}, "partition -1: partitions are counted from 0"),
    ({"partition": 2**31}, "partition 2147483648"),
    ({"topic": "x" * 250}, "249 characters at most"),
    ({"topic": "\ud800"}, "UTF-8"),
]

WRONG_LISTS = [
    ({"timestamps": 1.5}, TypeError, "timestamps is 1.5 of type float"),
    ({"timestamps": NOW}, TypeError, "timestamps is datetime.* of type datetime"),
    ({"timestamps": True}, TypeError, "timestamps is True of type bool"),
    ({"timestamps": [1.5, None]}, TypeError, "timestamps: a list of int or None is needed, not double"),
    ({"timestamps": [1.0, 2.0]}, TypeError, "timestamps: .* not double"),
    ({"timestamps": [NOW, NOW]}, TypeError, "timestamps: .* not timestamp"),
    ({"timestamps": [True, False]}, TypeError, "timestamps: .* not bool"),
    ({"timestamps": [1, "2"]}, TypeError, "timestamps: a list of int or None"),
    ({"timestamps": [1, -2]}, ValueError, "timestamps -2: it is counted in milliseconds since 1970"),
    ({"timestamps": -2}, ValueError, "timestamps -2"),
    ({"partition": 1.0}, TypeError, "partition is 1.0 of type float"),
    ({"partition": [0.0, 1.0]}, TypeError, "partition: .* not double"),
    ({"partition": [0, -1]}, ValueError, "partition -1: partitions are counted from 0"),
    ({"topic": b"orders"}, TypeError, "topic is b'orders' of type bytes"),
    ({"values": [1, 2]}, TypeError, "values"),
    ({"values": b"ab"}, TypeError, "values is one bytes"),
]


def arguments(given: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    return {"topic": "orders", **defaults, **given}


class Clock:
    """The time of a bench, in which everything is moved by hand."""

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> float:
        return 0.0


class Queue:
    """A send queue whose topic is known, so that records go into an open batch; what it sent is read back."""

    def __init__(self) -> None:
        cluster = ModelCluster(topics={"orders": 3})
        config = ProducerConfig.load({"bootstrap_servers": cluster.bootstrap_servers, "linger_ms": 1000})
        self.machine = ProducerMachine(config, Random(0))
        self.queue = SendQueue(config, self.machine, Clock(), Hooks())
        self.bench = Bench(self.machine, cluster)
        self.machine.know_topic("orders", 0)
        self.bench.turn()
        self.put(value=b"first", partition=0)

    def put(self, **given: Any) -> None:
        every = {"value": b"v", "key": None, "partition": None, "headers": (), "timestamp": None}
        self.queue.put(object(), **{**every, **arguments(given)})

    @property
    def buffered(self) -> int:
        return self.machine.admission.used_bytes


@pytest.fixture
def known() -> Queue:
    return Queue()


@pytest.mark.parametrize(("given", "message"), WRONG_TYPES)
def test_a_wrong_type_is_a_type_error_that_names_the_argument(
    known: Queue, given: dict[str, Any], message: str
) -> None:
    before = known.buffered
    with pytest.raises(TypeError, match=message):
        known.put(**given)
    assert known.buffered == before, "nothing was taken"


@pytest.mark.parametrize(("given", "message"), WRONG_VALUES)
def test_a_value_out_of_range_is_a_value_error(known: Queue, given: dict[str, Any], message: str) -> None:
    before = known.buffered
    with pytest.raises(ValueError, match=message):
        known.put(**given)
    assert known.buffered == before, "nothing was taken"


@pytest.mark.parametrize(("given", "message"), [*WRONG_TYPES, *WRONG_VALUES])
def test_the_first_send_of_an_asyncio_producer_raises_it(given: dict[str, Any], message: str) -> None:
    """Before a topic is known records wait: they used to fail long after ``send``, or never."""

    async def scenario() -> None:
        producer = Producer(bootstrap_servers="localhost:1")
        with pytest.raises((TypeError, ValueError), match=message):
            producer.send(**arguments(given, value=given.get("value", b"v")))
        with pytest.raises((TypeError, ValueError), match=message):
            producer.send(**arguments(given, value=given.get("value", b"v")))
        await producer.close(timeout_ms=0)

    asyncio.run(scenario())


@pytest.fixture(scope="module")
def threaded() -> Iterator[blocking.Producer]:
    producer = blocking.Producer(bootstrap_servers="localhost:1")
    yield producer
    producer.close(timeout_ms=0)


@pytest.mark.parametrize(("given", "message"), [*WRONG_TYPES, *WRONG_VALUES])
def test_a_blocking_producer_raises_it(threaded: blocking.Producer, given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        threaded.send(**arguments(given, value=given.get("value", b"v")))


@pytest.mark.parametrize(("given", "kind", "message"), WRONG_LISTS)
def test_send_many_raises_it(
    threaded: blocking.Producer, given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        threaded.send_many(**arguments(given, values=given.get("values", [b"a", b"b"])))


def test_a_column_of_fractions_is_no_timestamp(threaded: blocking.Producer) -> None:
    with pytest.raises(TypeError, match=r"timestamp: .* not double"):
        threaded.send_arrow("orders", pa.table({"value": [b"a"], "timestamp": [time.time() * 1000]}))


@pytest.mark.parametrize("given", [np.int64(2), np.int32(2), 2])
def test_integers_of_other_libraries_are_integers(known: Queue, given: Any) -> None:
    known.put(partition=given, timestamp=given)
    known.bench.advance(2_000)
    (settled,) = [one for one in known.machine.take_settled() if one.partition == 2]
    assert settled.timestamps == [2]
    assert type(settled.timestamps[0]) is int


@pytest.mark.parametrize("value", [bytearray(b"abcd"), memoryview(b"abcd"), array("h", [25185, 25699])])
def test_what_holds_bytes_is_sent_as_its_bytes(known: Queue, value: Any) -> None:
    """Also what counts its elements in larger pieces than bytes: its length is not the number of its bytes."""
    known.put(value=value, partition=0)
    known.bench.advance(2_000)
    assert known.bench.cluster.logs["orders", 0].values == [b"first", b"abcd"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({("orders", 0): 1.5}, "offset is 1.5 of type float"),
        ({("orders", 0): -1}, "offset -1: offsets are counted from 0"),
        ({("orders", 0): OffsetAndMetadata("7")}, "offset is '7' of type str"),  # type: ignore[arg-type]
        ({("orders", "0"): 1}, "partition is '0' of type str"),
        ({(b"orders", 0): 1}, "topic is b'orders' of type bytes"),
        ({"orders": 1}, "a partition is a topic and a number, such as"),
    ],
)
def test_offsets_are_checked_where_they_are_given(given: Any, message: str) -> None:
    """A consumer would find out only when it encodes the request, in the middle of its work."""
    with pytest.raises((TypeError, ValueError), match=message):
        as_offsets(given)


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (1, 2), (2, 2), (4, 0)])
def test_headers_of_a_part_of_a_table_are_those_of_its_rows(first: int, count: int) -> None:
    told = [[("a", b"1")], None, [("b", None), ("c", b"2")], []]
    table = pa.table({"value": [b"v"] * 4, "headers": pa.array(told, pa.map_(pa.string(), pa.binary()))})
    headers = as_rows(table.slice(first, count), 0).column("headers").to_pylist()
    expected = told[first : first + count]
    assert [one and [(pair["key"], pair["value"]) for pair in one] for one in headers] == expected


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_a_header_of_a_table_that_has_no_key_is_refused(
    threaded: blocking.Producer, header: dict[str, Any] | None
) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[], [{"key": "h", "value": None}, header]], kind)
    with pytest.raises(ValueError, match="a header has no key"):
        threaded.send_arrow("orders", pa.table({"value": [b"a", b"b"], "headers": headers}))


def test_headers_of_a_table_may_be_more_than_arrow_has_in_one_piece() -> None:
    """The offsets of an Arrow array have 32 bits. These chunks share their memory."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    chunk = pa.array([[{"key": "h", "value": bytes(2**26)}]], kind)
    table = pa.table({"value": pa.chunked_array([[b"v"]] * 33), "headers": pa.chunked_array([chunk] * 33)})
    assert as_rows(table, 0).num_rows == 33
