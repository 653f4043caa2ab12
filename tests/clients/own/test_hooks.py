"""Serializers, and hooks before a record is sent and after it was acknowledged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from semel import Consumer, Producer, blocking
from semel.client.deserializers import DeserializationError
from semel.client.values import BulkMetadata, ProducerRecord, RecordMetadata
from semel.errors import AbortableError, StateError
from semel.testing import Broker
from semel.types import TopicPartition
from tools.patience import PATIENCE_MS, PATIENCE_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1, message_max_bytes=20_000) as running:
        yield running


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def stored(broker: Broker, topic: str, count: int) -> list[tuple[Any, Any, Any]]:
    with blocking.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        records = []
        while len(records) < count:
            records += consumer.poll(PATIENCE_MS)
    return [(record.key, record.value, record.headers) for record in records]


def test_keys_and_values_are_serialized_and_deserialized_and_null_stays_null(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    with blocking.Producer(bootstrap_servers=servers, key_serializer=str.encode, value_serializer=to_json) as producer:
        producer.send("json", {"a": 1}, key="k").result(PATIENCE_S)
        producer.send("json", None, key=None).result(PATIENCE_S)
        producer.send_many("json", [[2], None], ["l", None]).result(PATIENCE_S)
    assert stored(broker, "json", 4) == [
        (b"k", b'{"a": 1}', ()),
        (None, None, ()),
        (b"l", b"[2]", ()),
        (None, None, ()),
    ]
    with blocking.Consumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        key_deserializer=bytes.decode,
        value_deserializer=json.loads,
    ) as consumer:
        consumer.assign([("json", 0)])
        found: list[Any] = []
        while len(found) < 4:
            found += [(record.key, record.value) for record in consumer.poll(PATIENCE_MS)]
    assert found == [("k", {"a": 1}), (None, None), ("l", [2]), (None, None)]


def test_the_partition_is_chosen_by_the_bytes_of_a_key(broker: Broker) -> None:
    asked: list[Any] = []

    def partitioner(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        asked.append((key, value))
        return 0

    with blocking.Producer(
        bootstrap_servers=broker.bootstrap_servers, key_serializer=str.encode, partitioner=partitioner
    ) as producer:
        producer.send("chosen", b"v", key="k").result(PATIENCE_S)
    assert asked == [(b"k", b"v")]


def test_a_serializer_that_raises_keeps_the_record_from_being_taken(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, value_serializer=to_json) as producer:
        with pytest.raises(TypeError, match="not JSON serializable"):
            producer.send("unsent", object())
        with pytest.raises(TypeError, match="not JSON serializable"):
            producer.send_many("unsent", [1, object()])
        assert producer.send("unsent", 1).result(PATIENCE_S).offset == 0


def test_a_record_that_cannot_be_deserialized_is_neither_lost_nor_passed_over(broker: Broker) -> None:
    async def scenario() -> None:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        async with Producer(**servers) as producer:
            await producer.send_many("poison", [b"1", b"2", b"{", b"4"])
        async with Consumer(**servers, auto_offset_reset="earliest", value_deserializer=json.loads) as consumer:
            consumer.assign([("poison", 0)])
            assert [record.value for record in await consumer.poll(PATIENCE_MS)] == [1, 2]
            for _ in range(2):  # Again and again, until somebody decides.
                with pytest.raises(DeserializationError, match="offset 2 of poison-0") as raised:
                    await consumer.poll(PATIENCE_MS)
                assert (raised.value.partition, raised.value.offset) == (TopicPartition("poison", 0), 2)
                assert isinstance(raised.value.__cause__, ValueError)
                assert await consumer.position(("poison", 0)) == 2
            consumer.seek(("poison", 0), 3)
            assert [record.value for record in await consumer.poll(PATIENCE_MS)] == [4]

    asyncio.run(scenario())


def test_on_send_sees_every_record_first_and_may_change_it(broker: Broker) -> None:
    seen: list[ProducerRecord] = []

    def traced(record: ProducerRecord) -> ProducerRecord:
        seen.append(record)
        return record._replace(headers=(*record.headers, ("trace", b"7")), value={"wrapped": record.value})

    with blocking.Producer(
        bootstrap_servers=broker.bootstrap_servers, on_send=traced, value_serializer=to_json
    ) as producer:
        producer.send("traced", 1, headers={"own": b"x"}).result(PATIENCE_S)
        producer.send_many("traced", [2, 3], [b"k", None], timestamps=5).result(PATIENCE_S)
        with pytest.raises(StateError, match="use send_many"):
            producer.send_arrow("traced", pa.table({"value": [b"4"]}))
    assert seen == [
        ProducerRecord("traced", 1, headers=(("own", b"x"),)),
        ProducerRecord("traced", 2, b"k", timestamp=5),
        ProducerRecord("traced", 3, timestamp=5),
    ]
    assert stored(broker, "traced", 3) == [
        (None, b'{"wrapped": 1}', (("own", b"x"), ("trace", b"7"))),
        (b"k", b'{"wrapped": 2}', (("trace", b"7"),)),
        (None, b'{"wrapped": 3}', (("trace", b"7"),)),
    ]


def test_on_acknowledgement_is_told_once_of_each_record_and_each_bulk(broker: Broker) -> None:
    told: list[tuple[RecordMetadata | BulkMetadata | None, Exception | None]] = []

    async def scenario() -> None:
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, on_acknowledgement=lambda *what: told.append(what)
        ) as producer:
            written = await producer.send("acknowledged", b"a", timestamp=1)
            cancelled = producer.send("acknowledged", b"b", timestamp=2)
            cancelled.cancel()
            await producer.flush()
            bulk = await producer.send_many("acknowledged", [b"c", b"d"])
            with pytest.raises(AbortableError):
                await producer.send("acknowledged", bytes(30_000))
            producer.send("acknowledged", bytes(30_000)).cancel()
            await producer.flush()
        assert told[:3] == [(written, None), (RecordMetadata("acknowledged", 0, 1, 2), None), (bulk, None)]
        assert [written for written, _ in told[3:]] == [None, None]
        assert all(isinstance(error, AbortableError) for _, error in told[3:])

    asyncio.run(scenario())


def test_on_acknowledgement_that_raises_disturbs_nobody(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    def raises(*what: object) -> None:
        raise RuntimeError("a hook's own trouble")

    with (
        caplog.at_level(logging.ERROR),
        blocking.Producer(bootstrap_servers=broker.bootstrap_servers, on_acknowledgement=raises) as producer,
    ):
        assert producer.send("raising", b"a").result(PATIENCE_S).offset == 0
    assert "on_acknowledgement raised" in caplog.text
