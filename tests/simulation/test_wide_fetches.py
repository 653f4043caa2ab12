"""A Fetch of so many partitions that they are read in slices, while the partitions change between the slices."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.broker.fetch.reading import SLICE_TARGETS
from semel.broker.node import Node
from semel.broker.requests.handlers.fetch import fetch
from semel.broker.requests.pieces import Piece
from semel.errors import ErrorCode
from semel.testing.simulation import Simulation, run
from semel.types import TopicPartition
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.wire.records import Record, build_batch
from tests.simulation.served_broker import ServedBroker, create_topic

TOPIC = "orders"
PARTITIONS = SLICE_TARGETS + 1
MAX_WAIT_MS = 1000


def fetch_request() -> Any:
    client = SimpleNamespace(
        api=APIS[ApiKey.FETCH],
        connection=None,
        listener="",
        version=12,
        correlation_id=0,
        client_id=None,
        peer_host="",
        principal="",
        is_from_broker=False,
        limits=None,
        room_bytes=lambda: 1_000_000,
        lacks_room=False,
    )
    return Piece(cast(Any, client), asyncio.get_running_loop())


async def reading(simulation: Simulation, *, min_bytes: int = 1) -> tuple[Node, asyncio.Task[FetchResponse]]:
    """A fetch of all partitions, of which the first slice was read."""
    served = ServedBroker(simulation, flush="os")
    served.start()
    await create_topic(served.client(), TOPIC, PARTITIONS)
    node = served.broker.node
    topic = FetchTopic(TOPIC, partitions=[FetchPartition(index, fetch_offset=0) for index in range(PARTITIONS)])
    request = FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=min_bytes, topics=[topic])
    work: Any = fetch(node, fetch_request(), request)
    fetching = asyncio.create_task(work)
    await asyncio.sleep(0)  # The first slice is queued,
    await asyncio.sleep(0)  # and read.
    assert not fetching.done()
    return node, fetching


def test_a_partition_that_is_no_longer_led_after_it_was_read_is_refused_alone() -> None:
    async def scenario(simulation: Simulation) -> None:
        node, fetching = await reading(simulation)
        node.partitions.resign(TopicPartition(TOPIC, 0))
        answer = await fetching
        assert answer.error_code == ErrorCode.NONE
        errors = [partition.error_code for partition in answer.responses[0].partitions]
        assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] + [ErrorCode.NONE] * (PARTITIONS - 1)

    run(scenario)


@pytest.mark.parametrize("min_bytes", [1, 1000])
def test_a_record_that_comes_after_its_partition_was_read_ends_the_wait_if_it_is_enough(min_bytes: int) -> None:
    async def scenario(simulation: Simulation) -> None:
        node, fetching = await reading(simulation, min_bytes=min_bytes)
        began_s = simulation.loop.time()
        partition = node.partitions.get(TOPIC, 0)
        assert partition is not None
        partition.append(memoryview(bytearray(build_batch([Record(0, 0, None, b"value")]))), 0)
        answer = await fetching
        assert answer.responses[0].partitions[0].records
        waited_ms = (simulation.loop.time() - began_s) * 1000
        assert waited_ms == 0 if min_bytes == 1 else waited_ms >= MAX_WAIT_MS

    run(scenario)
