"""What a broker tells those that watch it while it stops, in virtual time."""

from __future__ import annotations

import asyncio
from functools import partial

from semel.broker.broker import STOP_TASKS_SECONDS_MAX, Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.testing.simulation import Simulation, run
from semel.types import Address
from semel.wire.apis import ApiKey
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.simulation.served_broker import BROKER, CLIENTS, PORT, SETTINGS, create_topic
from tests.simulation.wire_client import WireClient, find_group_coordinator

METRICS_PORT = 9100


class Answer(asyncio.Protocol):
    def __init__(self, closed: asyncio.Future[bytes]) -> None:
        self._received, self._closed = b"", closed

    def data_received(self, data: bytes) -> None:
        self._received += data

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set_result(self._received)


async def started_broker(simulation: Simulation) -> Broker:
    host = simulation.host(BROKER)
    broker = Broker(
        BrokerConfig.load("", SETTINGS),
        listen=Address(BROKER, PORT),
        metrics_listen=Address(BROKER, METRICS_PORT),
        disk=host.disk,
        network=host.network,
        clock=host.clock,
        random=simulation.random("broker"),
        make_worker=lambda _: host.worker(),
    )
    await host.start(broker.start())
    return broker


async def status_of(simulation: Simulation, path: str) -> bytes:
    """The first line of the answer to a GET of the path on the page of metrics."""
    closed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    network = simulation.host(CLIENTS).network
    transport, _ = await network.connect(BROKER, METRICS_PORT, partial(Answer, closed))
    transport.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    return (await closed).partition(b"\r\n")[0]


def test_a_broker_that_stops_tells_a_probe_at_once_and_serves_its_metrics_on() -> None:
    async def scenario(simulation: Simulation) -> None:
        host, loop = simulation.host(BROKER), asyncio.get_running_loop()
        broker = await started_broker(simulation)
        assert await status_of(simulation, "/healthz") == b"HTTP/1.1 200 OK"

        host.hang_workers()  # The stop waits for the request that is being served.
        creating = asyncio.create_task(create_topic(WireClient(simulation.host(CLIENTS).network, BROKER, PORT), "t", 1))
        await asyncio.sleep(0.1)
        stopping, began_s = host.start(broker.stop()), loop.time()
        assert await status_of(simulation, "/healthz") == b"HTTP/1.1 503 Service Unavailable"
        assert await status_of(simulation, "/metrics") == b"HTTP/1.1 200 OK"
        assert loop.time() - began_s < STOP_TASKS_SECONDS_MAX
        assert not stopping.done()
        host.hang_workers(False)
        assert await stopping
        creating.cancel()

    run(scenario)


def test_requests_about_all_groups_that_still_wait_for_the_disk_do_not_make_a_stop_unclean() -> None:
    """They are cancelled, and the shards that they have asked are unloaded after that."""

    async def scenario(simulation: Simulation) -> None:
        host, loop = simulation.host(BROKER), asyncio.get_running_loop()
        broker = await started_broker(simulation)
        clients = [WireClient(simulation.host(CLIENTS).network, BROKER, PORT) for _ in range(3)]
        await create_topic(clients[0], "t", 1)
        await find_group_coordinator(clients[0], "group")
        topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(0, 1, None, None)])
        commit = OffsetCommitRequest(group_id="group", member_id="", topics=[topic])
        await clients[0].call(ApiKey.OFFSET_COMMIT, 8, commit)
        host.hang_workers()
        await clients[0].send(ApiKey.OFFSET_COMMIT, 8, commit)
        await asyncio.sleep(0.1)
        await clients[1].send(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
        every = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=None)])
        await clients[2].send(ApiKey.OFFSET_FETCH, 8, every)
        await asyncio.sleep(0.1)
        stopping = host.start(broker.stop())
        loop.call_later(STOP_TASKS_SECONDS_MAX + 2.5, host.hang_workers, False)
        assert await stopping

    run(scenario)
