"""Functions that send a batch on each path that the broker has for it, and check the topic afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from semel.errors import DecodeError
from semel.wire.apis import ApiKey
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import iterate_headers, iterate_records
from tools.hostile.attack_connection import AttackConnection, response_word
from tools.hostile.attack_context import AttackContext
from tools.hostile.batches import sound_batch

_FETCH_BYTES_MAX = 8 * 2**20
_MS = 20_000


def produce(client: AttackConnection, topic: str, batch: bytes, *, version: int = 9, partition: int = 0) -> Any:
    """Send one batch to one partition, and return the response."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch)])
    return client.ask(ApiKey.PRODUCE, version, ProduceRequest(acks=-1, timeout_ms=_MS, topic_data=[data]))


def on_every_way(context: AttackContext, topic: str, batch: bytes) -> Iterator[tuple[str, Any]]:
    """Send the batch alone, in a version without and one with tagged fields, and with a sound batch for partition 1."""
    for version in (7, 9):
        with context.connect() as client:
            yield f"Produce v{version}", produce(client, topic, batch, version=version)
    beside = [PartitionProduceData(0, batch), PartitionProduceData(1, sound_batch(b"beside"))]
    request = ProduceRequest(acks=-1, timeout_ms=_MS, topic_data=[TopicProduceData(topic, partition_data=beside)])
    with context.connect() as client:
        yield "Produce of two partitions", client.ask(ApiKey.PRODUCE, 9, request)


def producer_of(context: AttackContext, transactional_id: str | None, *, timeout_ms: int = 60_000) -> tuple[int, int]:
    """Return a producer id and epoch from InitProducerId."""
    with context.connect() as client:
        for _ in range(2000):
            response = client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id, timeout_ms))
            if response_word(response) == "NONE":
                return response.producer_id, response.producer_epoch
            # There is no coordinator yet, and FindCoordinator creates its topic; or it is ending the last transaction.
            client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(transactional_id or "", 1))
            time.sleep(0.02)
    raise AssertionError(f"InitProducerId: {response_word(response)}")


def in_transaction(context: AttackContext, topic: str, batch: bytes, transactional_id: str) -> Any:
    """Send the batch with Produce v12, which adds the partition to the transaction by itself."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])
    request = ProduceRequest(transactional_id, acks=-1, timeout_ms=_MS, topic_data=[data])
    with context.connect() as client:
        return client.ask(ApiKey.PRODUCE, 12, request)


def check_topic(context: AttackContext, topic: str, *, partitions: int = 1) -> None:
    """Check that a sound record is accepted and that a reader from the beginning reaches it, each offset once."""
    for partition in range(partitions):
        with context.connect() as client:
            response = produce(client, topic, sound_batch(b"last"), partition=partition)
            if response_word(response) != "NONE":
                context.finding(f"{topic}-{partition} takes no sound record any more: {response_word(response)}")
                continue
            try:
                _read_through(client, topic, partition)
            except (AssertionError, DecodeError) as error:
                context.finding(f"a reader of {topic}-{partition} is stuck: {error}")


def _read_through(client: AttackConnection, topic: str, partition: int) -> None:
    position, last = 0, b""
    while True:
        asked = FetchPartition(partition, fetch_offset=position, partition_max_bytes=_FETCH_BYTES_MAX)
        topics = [FetchTopic(topic, partitions=[asked])]
        response = client.ask(
            ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=2**20, topics=topics)
        )
        assert not isinstance(response, str), response
        assert response_word(response) == "NONE", response_word(response)
        data = response.responses[0].partitions[0].records or b""
        before = position
        for at, header in iterate_headers(data, allow_partial_tail=True):
            assert header.base_offset == position, f"batch at offset {header.base_offset} after {position - 1}"
            for record in iterate_records(data, at):
                last = record.value or b""
            position = header.base_offset + header.last_offset_delta + 1
        if position == before:
            break
    assert last == b"last", f"the log ends at {position} with {last[:20]!r}"
