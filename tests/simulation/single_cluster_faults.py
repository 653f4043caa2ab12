"""One fault at the one moment where it hurts, on three brokers: what chance rarely finds.

Each is a scenario about a transactional producer that writes to partitions of all brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from semel.broker.cluster.connection_names import ConnectionName
from semel.client.producer import Producer
from semel.errors import ErrorCode, TimedOut
from semel.testing.simulation import Simulation
from semel.testing.virtual.frames import DELIVER, RESET, Frame, Interceptor, Verdict
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import create_topic
from tests.simulation.served_cluster import INTER_BROKER_PORT, SESSION_TIMEOUT_S, ServedCluster, ServedMember
from tests.simulation.wire_client import WireClient

TOPIC, PARTITIONS = "orders", 3
TRANSACTIONAL_ID: Final = "t"
LATE_S = 1.5


async def its_coordinator_does_not_know_the_topic(simulation: Simulation) -> None:
    """The coordinator's ZooKeeper server is behind while the topic is made, written to and committed (scenario 38)."""
    async with cluster_and_producer(simulation, auto_create_topics_enable="false") as (cluster, producer):
        coordinator = coordinator_of(cluster)
        server = cluster.servers[coordinator.node_id - 1]  # The one that it asks first.
        server.cut_off()
        other = next(member for member in cluster.brokers.values() if member is not coordinator)
        await create_topic(cluster.client(other.node_id), "new", PARTITIONS)
        # The others have it; of what the coordinator leads of it, it does not know.
        led = [one for one in range(PARTITIONS) if cluster.led_by_store("new", one) != coordinator.node_id]
        async with producer.transaction():
            for one in led:
                await producer.send("new", b"first", partition=one)
        assert "new" not in coordinator.broker.node.image.topics, "the coordinator has heard of the topic meanwhile"
        await asyncio.sleep(1)  # The markers are owed, and no read tells whether the topic exists.
        server.rejoin()
        await asyncio.sleep(SESSION_TIMEOUT_S)
        for one in led:
            place = TopicPartition("new", one)
            assert await read_committed(cluster.leader_of(place), place) == [b"first"]


async def a_marker_arrives_again_in_the_next_transaction(simulation: Simulation) -> None:
    """It was sent over two connections. With transactions V1 nothing in it says which transaction it ends."""
    late = First(ApiKey.WRITE_TXN_MARKERS, Verdict(delay_ms=LATE_S * 1000, sender_loses=True))
    async with cluster_and_producer(simulation, late, transaction_version="1") as (cluster, producer):
        await transact(producer, b"first")
        await send(producer, b"second")
        assert late.struck, "no marker went to another broker"
        await asyncio.sleep(2 * LATE_S)
        await producer.abort()
        await check(cluster, b"first")


async def a_request_for_admission_is_lost(simulation: Simulation) -> None:
    lost = First(ApiKey.ADD_PARTITIONS_TO_TXN, RESET)
    async with cluster_and_producer(simulation, lost, transaction_version="2") as (cluster, producer):
        await transact(producer, b"first")
        assert lost.struck
        await check(cluster, b"first")


async def an_admission_is_answered_after_the_transaction(simulation: Simulation) -> None:
    """With transactions V1 the epoch does not say that the batch is of a transaction that is over (scenario 42)."""
    late = First(ApiKey.ADD_PARTITIONS_TO_TXN, Verdict(delay_ms=LATE_S * 2000), of_answer=True)
    settings = {"request_timeout_ms": 500, "delivery_timeout_ms": 1_000}
    async with cluster_and_producer(simulation, late, settings, transaction_version="1") as (cluster, producer):
        producer.begin()
        sends = [producer.send(TOPIC, b"first", partition=one) for one in range(PARTITIONS)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert any(isinstance(outcome, TimedOut) for outcome in outcomes), outcomes
        await producer.abort()
        await asyncio.sleep(3 * LATE_S)
        await check(cluster)


async def power_is_cut_when_markers_are_acknowledged(simulation: Simulation) -> None:
    """What was acknowledged is there after the restart (scenario 33), also when the producer has gone on."""
    loop = simulation.loop

    def cut_power(frame: Frame) -> None:
        loop.call_soon(simulation.host(frame.source).cut_power)

    answered = First(ApiKey.WRITE_TXN_MARKERS, DELIVER, of_answer=True, then=cut_power)
    async with cluster_and_producer(simulation, answered, transaction_version="2") as (cluster, producer):
        await transact(producer, b"first")
        await asyncio.sleep(LATE_S)
        (dead,) = (member for member in cluster.brokers.values() if not member.host.alive)
        others = [one for one in range(PARTITIONS) if cluster.led_by_store(TOPIC, one) != dead.node_id]
        await transact(producer, b"second", others)
        dead.start()
        await dead.until_up()
        await asyncio.sleep(LATE_S)
        for one in range(PARTITIONS):
            assert (await committed(cluster, one))[:1] == [b"first"], f"partition {one} lost what was committed"


async def power_is_cut_when_a_marker_arrives(simulation: Simulation) -> None:
    """No answer comes, and no end of the connection. The restarted broker gets its marker soon (scenario 38)."""

    def cut_power(frame: Frame) -> None:
        simulation.host(frame.destination).cut_power_in_disk_operation(1)

    async with cluster_and_producer(simulation, First(ApiKey.WRITE_TXN_MARKERS, DELIVER, then=cut_power)) as (
        cluster,
        producer,
    ):
        await transact(producer, b"first")
        await asyncio.sleep(LATE_S)
        (dead,) = (member for member in cluster.brokers.values() if not member.host.alive)
        dead.start()
        await dead.until_up()
        await asyncio.sleep(SESSION_TIMEOUT_S)
        await check(cluster, b"first")


async def a_session_expires_unseen(simulation: Simulation) -> None:
    """The broker is not told. It joins again, and is found (scenario 36: meanwhile it refuses)."""
    async with cluster_and_producer(simulation) as (cluster, producer):
        await transact(producer, b"first")
        for member in cluster.brokers.values():
            assert cluster.expire(cluster.session_of(member))
        await asyncio.sleep(SESSION_TIMEOUT_S)
        await transact(producer, b"second")
        await check(cluster, b"first", b"second")


async def the_coordinator_dies_while_it_ends_a_transaction(simulation: Simulation, *, operations: int) -> None:
    """Scenarios 31 to 34: before the decision is durable, before, between and after the markers."""

    def dies(frame: Frame) -> None:
        simulation.host(frame.destination).kill_in_disk_operation(operations)

    at_end = First(ApiKey.END_TXN, DELIVER, then=dies, between_brokers=False)
    async with cluster_and_producer(simulation, at_end) as (cluster, producer):
        committing = asyncio.ensure_future(transact(producer, b"first"))
        await asyncio.sleep(LATE_S)
        for member in cluster.brokers.values():
            if not member.host.alive:
                member.start()
        await committing
        await asyncio.sleep(2 * LATE_S)
        await check(cluster, b"first")


async def a_leader_is_away_when_its_marker_is_due(simulation: Simulation) -> None:
    """Scenario 38."""
    async with cluster_and_producer(simulation) as (cluster, producer):
        await send(producer, b"first")
        coordinator = coordinator_of(cluster)
        away = next(member for member in cluster.brokers.values() if member is not coordinator)
        away.host.kill()
        await producer.commit()
        await asyncio.sleep(2 * SESSION_TIMEOUT_S)
        away.start()
        await away.until_up()
        await asyncio.sleep(SESSION_TIMEOUT_S)
        await check(cluster, b"first")


async def a_coordinator_of_an_earlier_term_sends_a_marker(simulation: Simulation) -> None:
    """Scenarios 35 and 36."""
    async with cluster_and_producer(simulation, transaction_version="1") as (cluster, producer):
        await transact(producer, b"first")
        coordinator = coordinator_of(cluster)
        known = shard_of(coordinator)
        cluster.expire(cluster.session_of(coordinator))
        await asyncio.sleep(SESSION_TIMEOUT_S)
        assert shard_of(coordinator).coordinator_epoch > known.coordinator_epoch
        await transact(producer, b"second")
        await send(producer, b"third")
        transaction = shard_of(coordinator).get(TRANSACTIONAL_ID)
        partition = next(one for one in range(PARTITIONS) if cluster.led_by_store(TOPIC, one) != coordinator.node_id)
        marker = WritableTxnMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(TOPIC, [partition])],
            coordinator_epoch=known.coordinator_epoch,
        )
        name = ConnectionName(len(cluster.brokers) + 1, "markers", broker_epoch=1, number=1)  # No connection is older.
        leader = f"broker-{cluster.led_by_store(TOPIC, partition)}"
        zombie = WireClient(simulation.host("zombie").network, leader, INTER_BROKER_PORT, client_id=str(name))
        answer = await zombie.call(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
        result = answer.markers[0].topics[0].partitions[0]
        assert result.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED, "a marker of an earlier term was taken"
        end = EndTxnRequest(TRANSACTIONAL_ID, transaction.producer_id, transaction.producer_epoch, committed=True)
        for node_id in cluster.brokers.keys() - {coordinator.node_id}:
            refused = await cluster.client(node_id).call(ApiKey.END_TXN, 3, end)
            assert refused.error_code == ErrorCode.NOT_COORDINATOR
        await producer.abort()
        await asyncio.sleep(LATE_S)
        await check(cluster, b"first", b"second")


# -- what they share


class First:
    """An interceptor: something happens to the first request of an API between brokers, or to its answer."""

    def __init__(
        self,
        key: ApiKey,
        verdict: Verdict,
        *,
        of_answer: bool = False,
        between_brokers: bool = True,
        then: Callable[[Frame], None] | None = None,
    ) -> None:
        self.struck = False
        self._key = key
        self._verdict = verdict
        self._of_answer = of_answer
        self._between_brokers = between_brokers
        self._then = then
        self._asked_on: set[int] = set()

    def __call__(self, frame: Frame) -> Verdict:
        if self.struck or (self._between_brokers and {frame.source[:6], frame.destination[:6]} != {"broker"}):
            return DELIVER
        if frame.to_server:
            if int.from_bytes(frame.payload[:2], "big") != self._key:
                return DELIVER
            self._asked_on.add(frame.connection)
            if self._of_answer:
                return DELIVER
        elif not self._of_answer or frame.connection not in self._asked_on:
            return DELIVER
        self.struck = True
        if self._then is not None:
            self._then(frame)
        return self._verdict


@asynccontextmanager
async def cluster_and_producer(
    simulation: Simulation,
    interceptor: Interceptor | None = None,
    client: dict[str, Any] | None = None,
    **settings: str,
) -> AsyncIterator[tuple[ServedCluster, Producer]]:
    simulation.network.interceptor = interceptor
    cluster = ServedCluster(simulation, brokers=3, servers=3, flush="commit", **settings)
    await cluster.start()
    await create_topic(cluster.client(1), TOPIC, PARTITIONS)
    host = simulation.host("producer")
    async with Producer(
        network=host.network,
        clock=host.clock,
        random=simulation.random("producer"),
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id=TRANSACTIONAL_ID,
        **{"request_timeout_ms": 2_000, "delivery_timeout_ms": 20_000, **(client or {})},
    ) as producer:
        yield cluster, producer


async def send(producer: Producer, value: bytes) -> None:
    producer.begin()
    await asyncio.gather(*(producer.send(TOPIC, value, partition=one) for one in range(PARTITIONS)))


async def transact(producer: Producer, value: bytes, partitions: list[int] | None = None) -> None:
    async with producer.transaction():
        for one in range(PARTITIONS) if partitions is None else partitions:
            await producer.send(TOPIC, value, partition=one)


async def committed(cluster: ServedCluster, partition: int) -> list[bytes | None]:
    place = TopicPartition(TOPIC, partition)
    return await read_committed(cluster.leader_of(place), place)


async def check(cluster: ServedCluster, *values: bytes) -> None:
    """Exactly these are committed in every partition, and nothing is open."""
    await asyncio.sleep(1)
    for one in range(PARTITIONS):
        found = await committed(cluster, one)
        assert found == list(values), f"committed in partition {one}: {found}"
    cluster.laws.check()


def coordinator_of(cluster: ServedCluster) -> ServedMember:
    return next(member for member in cluster.brokers.values() if _shard(member) is not None)


def shard_of(member: ServedMember) -> Any:
    shard = _shard(member)
    assert shard is not None, f"{member.name} does not coordinate {TRANSACTIONAL_ID}"
    return shard


def _shard(member: ServedMember) -> Any:
    coordinators = member.broker.node.active_coordinators
    for runtime in () if coordinators is None else coordinators.transactions:
        if runtime.shard.get(TRANSACTIONAL_ID) is not None:
            return runtime.shard
    return None
