"""A Fetch of so many partitions that they are read in slices, while the partitions change between the slices."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from semel.broker.fetch.reading import SLICE_TARGETS
from semel.broker.requests.handlers.fetch import fetch
from semel.broker.requests.pieces import Piece
from semel.errors import ErrorCode
from semel.testing.simulation import Simulation, run
from semel.types import TopicPartition
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.simulation.served_broker import ServedBroker, create_topic

TOPIC = "orders"
PARTITIONS = SLICE_TARGETS + 1


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
    )
    return Piece(cast(Any, client), asyncio.get_running_loop())


def test_a_partition_that_is_no_longer_led_after_it_was_read_is_refused_alone() -> None:
    async def scenario(simulation: Simulation) -> None:
        served = ServedBroker(simulation)
        served.start()
        await create_topic(served.client(), TOPIC, PARTITIONS)
        node = served.broker.node
        topic = FetchTopic(TOPIC, partitions=[FetchPartition(index, fetch_offset=0) for index in range(PARTITIONS)])
        work: Any = fetch(node, fetch_request(), FetchRequest(max_wait_ms=1000, min_bytes=1, topics=[topic]))
        fetching = asyncio.create_task(work)
        await asyncio.sleep(0)  # The first slice is queued,
        await asyncio.sleep(0)  # and read.
        node.partitions.resign(TopicPartition(TOPIC, 0))
        assert not fetching.done()
        answer = await fetching
        assert answer.error_code == ErrorCode.NONE
        errors = [partition.error_code for partition in answer.responses[0].partitions]
        assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] + [ErrorCode.NONE] * (PARTITIONS - 1)

    run(scenario)
