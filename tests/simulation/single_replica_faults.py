"""One fault at the one moment where it hurts, on a partition with three replicas: what chance rarely finds.

Each is a scenario about partition 0 of one topic: its leader, and two followers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from semel.client.producer import Producer
from semel.errors import ErrorCode
from semel.metadata import paths
from semel.metadata.image import PartitionState
from semel.metadata.zookeeper.store import COMMIT_TIMEOUT_S
from semel.testing.simulation import Simulation
from semel.testing.virtual.clock import START_MS
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.frames import DELIVER, Frame, Verdict
from semel.testing.zookeeper.ensemble import Transaction
from semel.types import TRANSACTION_STATE_TOPIC, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import Record, build_batch
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import create_topic
from tests.simulation.served_cluster import (
    CLIENTS,
    PORT,
    REPLICATED,
    SESSION_TIMEOUT_S,
    ServedCluster,
    ServedMember,
)
from tests.simulation.wire_client import WireClient, find_group_coordinator

TOPIC, GROUP = "orders", "group"
PARTITION: Final = TopicPartition(TOPIC, 0)
ACKNOWLEDGED_S: Final = 3.0
"""By then what can be acknowledged is."""
PEACE_S: Final = 40.0
LONG_SESSIONS: Final = {"zookeeper_session_timeout_ms": "60000"}
NO_LAG: Final = {"replica_lag_time_max_ms": "20000"}
"""Longer than a follower is held up here."""


class Replicated:
    """A cluster of three, and a topic with one partition, whose first record is acknowledged."""

    def __init__(self, simulation: Simulation, cluster: ServedCluster) -> None:
        self.cluster = cluster
        self.network = simulation.network
        self._simulation = simulation
        self._count = 0
        self.acknowledged: list[bytes | None] = []

    @property
    def leader(self) -> ServedMember:
        return self.cluster.brokers[self.cluster.led_by_store(*PARTITION)]

    @property
    def followers(self) -> list[ServedMember]:
        """The next leader first."""
        state = self._state
        return [self.cluster.brokers[replica] for replica in state.replicas if replica != state.leader]

    @property
    def in_sync(self) -> set[int]:
        return set(self._state.isr)

    @property
    def _state(self) -> PartitionState:
        """According to the store itself, whatever the brokers know of it."""
        data = self.cluster.ensemble.tree.nodes[paths.topic_path(TOPIC)].data
        return paths.decode_topic(TOPIC, data).partitions[0]

    def client(self, member: ServedMember) -> WireClient:
        return WireClient(self._simulation.host(CLIENTS).network, member.name, PORT, timeout_s=300)

    def send(self, *, to: ServedMember | None = None, acks: int = -1, also: Sequence[str] = ()) -> asyncio.Task[int]:
        """The code that it is answered with. With other topics (``also``) the request is not parsed in place."""
        self._count += 1
        return asyncio.ensure_future(self._send(self.leader if to is None else to, b"%d" % self._count, acks, also))

    async def _send(self, to: ServedMember, value: bytes, acks: int, also: Sequence[str]) -> int:
        data = [PartitionProduceData(0, build_batch([Record(0, START_MS, None, value)]))]
        request = ProduceRequest(
            acks=acks,
            timeout_ms=250_000,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name in (TOPIC, *also)],
        )
        answer = await self.client(to).call(ApiKey.PRODUCE, 9, request)
        code: int = answer.responses[0].partition_responses[0].error_code
        if code == ErrorCode.NONE and acks == -1:
            self.acknowledged.append(value)
        return code

    async def end_told_by(self, member: ServedMember) -> int | None:
        """None if it does not say."""
        code, offset = await self.offset_told_by(member, LATEST)
        return None if code else offset

    async def offset_told_by(self, member: ServedMember, timestamp: int, *, version: int = 5) -> tuple[int, int]:
        """With the code before it."""
        asked = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, None, timestamp)])
        told = await self.client(member).call(ApiKey.LIST_OFFSETS, version, ListOffsetsRequest(topics=[asked]))
        found = told.topics[0].partitions[0]
        return found.error_code, found.offset

    def log_end(self, member: ServedMember) -> int:
        log = member.broker.node.logs.get(PARTITION)
        return -1 if log is None else log.log_end_offset

    async def until(self, condition: Callable[[], bool], *, step_s: float = 0.01) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(step_s)

    async def leave(self, member: ServedMember) -> None:
        """Its process dies, and the others go on without it."""
        member.host.kill()
        await self.until(lambda: member.node_id not in self.in_sync)

    def when_in_sync(self, node_id: int, then: Callable[[], None]) -> None:
        """At the moment of the commit, before any broker knows of it."""

        def agreed(transaction: Transaction) -> None:
            if any(path == paths.topic_path(TOPIC) for path, _ in transaction.changes) and node_id in self.in_sync:
                self.cluster.ensemble.agreed.remove(agreed)
                then()

        self.cluster.ensemble.agreed.append(agreed)

    def cut_off_from_zookeeper(self, member: ServedMember) -> None:
        self.network.partition(member.name, *(server.name for server in self.cluster.servers))

    async def check(self) -> None:
        """In peace all brokers have the same, and all that was acknowledged, in order."""
        self.network.heal()
        for member in self.cluster.brokers.values():
            member.host.hang_workers(False)
            if not member.host.alive:
                member.start()
        for member in self.cluster.brokers.values():
            await member.until_up()
        await asyncio.sleep(PEACE_S)
        self.cluster.in_sync_laws.check()
        assert self.in_sync == set(self.cluster.brokers), f"{self.in_sync} are in sync"
        found = await read_committed(self.client(self.leader), PARTITION)
        lost = [value for value in self.acknowledged if value not in found]
        assert not lost, f"acknowledged and lost: {lost}"
        logs = [member.broker.node.logs.get(PARTITION) for member in self.cluster.brokers.values()]
        copies = {log.read_copy(0, 1_000_000).records for log in logs if log is not None}
        assert len(copies) == 1, f"the logs differ; they end at {[log and log.log_end_offset for log in logs]}"


async def replicated(simulation: Simulation, **settings: str) -> Replicated:
    cluster = ServedCluster(simulation, 3, 3, **{**REPLICATED, "flush": "commit", **settings})
    await cluster.start()
    await create_topic(cluster.client(1), TOPIC, 1, replicas=3)
    await asyncio.sleep(1)
    made = Replicated(simulation, cluster)
    assert await made.send() == ErrorCode.NONE
    await asyncio.sleep(1)
    return made


async def is_acknowledged(sending: asyncio.Task[int]) -> bool:
    await asyncio.sleep(ACKNOWLEDGED_S)
    return sending.done() and sending.result() == ErrorCode.NONE


# -- acknowledgement and high watermark


async def a_follower_has_not_synced(simulation: Simulation) -> None:
    """Scenario 59: what a follower has written and not synced is not acknowledged."""
    one = await replicated(simulation, **NO_LAG)
    slow = one.followers[0]
    slow.host.hang_workers()
    sending = one.send()
    assert not await is_acknowledged(sending), "acknowledged before the follower's sync"
    assert one.log_end(slow) > 1, "the follower has not written it"
    slow.host.hang_workers(False)
    assert await is_acknowledged(sending)
    await one.check()


async def the_outcome_of_a_shrink_is_not_known(simulation: Simulation) -> None:
    """Scenario 59: who may still be in sync counts."""
    one = await replicated(simulation, replica_lag_time_max_ms="500", **LONG_SESSIONS)
    leader, slow = one.leader, one.followers[0]
    slow.host.hang_workers()
    one.cut_off_from_zookeeper(leader)
    sending = one.send()
    assert not await is_acknowledged(sending), "acknowledged without a follower that is in sync"
    # Now the leader has proposed to go on without it.
    last = one.send(to=leader)
    assert not await is_acknowledged(last), "acknowledged without a follower that is in sync"
    one.network.heal()
    assert await is_acknowledged(sending), "the follower that lags is still in sync"
    assert slow.node_id not in one.in_sync
    await one.check()


async def the_outcome_of_an_expansion_is_not_known(simulation: Simulation) -> None:
    """Scenario 59: a follower counts as soon as it may be in sync. The leader is told nothing of the commit."""
    one = await replicated(simulation, **NO_LAG, **LONG_SESSIONS)
    leader, joins = one.leader, one.followers[0]
    await one.leave(joins)
    assert await is_acknowledged(one.send())
    one.when_in_sync(joins.node_id, lambda: one.cut_off_from_zookeeper(leader))
    joins.start()
    await one.until(lambda: joins.node_id in one.in_sync)
    joins.host.hang_workers()
    sending = one.send(to=leader)
    await asyncio.sleep(COMMIT_TIMEOUT_S + 2)
    assert not await is_acknowledged(sending), "acknowledged without a follower that is in sync"
    joins.host.hang_workers(False)
    assert await is_acknowledged(sending)
    await one.check()


async def too_few_are_in_sync(simulation: Simulation) -> None:
    """Scenario 58: what cannot be acknowledged is not appended."""
    one = await replicated(simulation)
    leader = one.leader
    for follower in one.followers:
        await one.leave(follower)
    await asyncio.sleep(1)
    end = one.log_end(leader)
    for also in ((), ("unknown",)):
        assert await one.send(also=also) == ErrorCode.NOT_ENOUGH_REPLICAS, "taken by a leader alone"
    assert one.log_end(leader) == end, "appended, and refused"
    await one.check()


async def the_last_follower_leaves_after_the_append(simulation: Simulation) -> None:
    """Scenario 58: NOT_ENOUGH_REPLICAS_AFTER_APPEND, and the record is there."""
    one = await replicated(simulation, replica_lag_time_max_ms="500")
    leader, (last, first) = one.leader, one.followers
    await one.leave(first)
    last.host.hang_workers()
    codes = await asyncio.gather(one.send(), one.send(also=("unknown",)))
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 2
    assert one.log_end(leader) == 3
    await one.check()


# -- joining


async def a_follower_is_at_the_high_watermark_and_not_at_the_beginning_of_the_term(simulation: Simulation) -> None:
    """Scenario 60: the new leader has a record of which the last one did not learn that it is there."""
    one = await replicated(simulation, **NO_LAG)
    leader, (next_leader, away) = one.leader, one.followers
    await one.leave(away)
    one.network.partition_one_way(next_leader.name, leader.name)
    one.send().add_done_callback(lambda done: done.cancelled() or done.exception())
    await one.until(lambda: one.log_end(next_leader) == 2)
    leader.host.kill()
    await one.until(lambda: one.in_sync == {next_leader.node_id})
    away.host.disk.repair()
    away.start()
    await away.until_up()
    away.host.hang_workers()
    await asyncio.sleep(5)
    one.cluster.in_sync_laws.check()
    await one.check()


async def a_broker_comes_back_without_its_disk(simulation: Simulation) -> None:
    """Scenario 66: what its predecessor has fetched says nothing of the disk that it has now."""
    one = await replicated(simulation, replica_lag_time_max_ms="1000")
    loses = one.followers[0]
    await one.leave(loses)
    await asyncio.sleep(3)
    one.cluster.in_sync_laws.check()
    lose_disk(loses)
    one.network.partition(loses.name, one.leader.name)
    loses.start()
    await asyncio.sleep(3)
    one.cluster.in_sync_laws.check()
    await one.check()


async def a_broker_loses_its_disk_while_its_join_is_committed(simulation: Simulation) -> None:
    """Scenario 66: it was not in sync, so nothing in the partition's state says that it has another disk now."""
    one = await replicated(simulation, **NO_LAG, **LONG_SESSIONS, replica_fetch_max_bytes="100")
    leader, joins = one.leader, one.followers[0]
    await die_while_the_join_is_committed(one, simulation, leader, joins)
    lose_disk(joins)
    one.network.partition(joins.name, leader.name)
    joins.start()
    await joins.until_up()
    await asyncio.sleep(10)
    one.cluster.in_sync_laws.check()
    await one.check()


async def a_session_ends_while_the_join_of_its_broker_is_committed(simulation: Simulation) -> None:
    """Scenario 68: the end of a session is no commit, so no other commit came before this one."""
    one = await replicated(simulation, **NO_LAG, **LONG_SESSIONS, replica_fetch_max_bytes="100")
    leader, joins = one.leader, one.followers[0]
    await die_while_the_join_is_committed(one, simulation, leader, joins)
    await asyncio.sleep(10)
    one.cluster.in_sync_laws.check()
    await one.check()


async def die_while_the_join_is_committed(
    one: Replicated, simulation: Simulation, leader: ServedMember, joins: ServedMember
) -> None:
    """The leader's write is on its way to ZooKeeper for some seconds, and the broker dies."""
    await one.leave(joins)
    for _ in range(20):
        assert await one.send() == ErrorCode.NONE
    joins.start()
    await one.until(lambda: joins.node_id in leader.broker.node.image.brokers, step_s=0.0005)
    simulation.network.interceptor = late = LateWrite(leader.name, 8_000)
    for server in one.cluster.servers:
        simulation.network.reset(leader.name, server.name)
    await joins.until_up()
    await one.until(lambda: one.log_end(joins) == one.log_end(leader))
    await asyncio.sleep(2)
    assert late.struck, "no write of the leader is on its way"
    assert joins.node_id not in one.in_sync
    joins.host.kill()
    one.cluster.expire(one.cluster.session_of(joins))


class LateWrite:
    """The next change of the topic that one broker asks ZooKeeper for arrives late."""

    def __init__(self, source: str, delay_ms: float) -> None:
        self._source = source
        self._delay_ms = delay_ms
        self.struck = False

    def __call__(self, frame: Frame) -> Verdict:
        is_write = paths.topic_path(TOPIC).encode() in frame.payload and b"partitions" in frame.payload
        if self.struck or not (is_write and frame.to_server and frame.source == self._source):
            return DELIVER
        self.struck = True
        return Verdict(delay_ms=self._delay_ms)


# -- leading


async def all_die_and_one_comes_back_without_its_disk(simulation: Simulation) -> None:
    """Scenarios 64 and 66: it was in sync, and is up first."""
    one = await replicated(simulation)
    loses = one.leader
    for member in one.cluster.brokers.values():
        member.host.cut_power()
    await asyncio.sleep(SESSION_TIMEOUT_S + 4)
    lose_disk(loses)
    loses.start()
    # It may die on the way: then a new directory is there already, and nothing in it.
    loses.host.kill_in_disk_operation(1 + 3 * simulation.seed)
    await asyncio.sleep(5)
    if not loses.host.alive:
        loses.start()
    loses.host.disk.repair()
    await loses.until_up()
    await asyncio.sleep(5)
    await one.check()


async def only_one_that_is_not_in_sync_is_left(simulation: Simulation) -> None:
    """Scenario 63: no leader, and nothing lost."""
    one = await replicated(simulation)
    leader, (other, behind) = one.leader, one.followers
    await one.leave(behind)
    assert await one.send() == ErrorCode.NONE
    one.network.partition(behind.name, leader.name, other.name)
    behind.start()
    await behind.until_up()
    leader.host.kill()
    other.host.kill()
    await asyncio.sleep(SESSION_TIMEOUT_S + 4)
    await one.check()


async def a_leader_dies_before_it_has_told_the_high_watermark(simulation: Simulation) -> None:
    """Scenarios 61 and 65: the next leader tells no end before it knows what was told, and truncates nothing."""
    one = await replicated(simulation, **NO_LAG)
    leader, (next_leader, last) = one.leader, one.followers
    sending = one.send()
    while not sending.done():
        await asyncio.sleep(0.0002)
    end = await one.end_told_by(leader)
    assert end == 2
    leader.host.kill()
    one.network.partition(next_leader.name, last.name)
    await one.until(lambda: one.leader is not leader)
    next_leader = one.leader
    await asyncio.sleep(0.5)
    told = await one.end_told_by(next_leader)
    assert told is None or told >= end, f"the end was {end} and is {told}"
    for timestamp in (LATEST, START_MS):
        code, _ = await one.offset_told_by(next_leader, timestamp)
        assert code == ErrorCode.OFFSET_NOT_AVAILABLE, f"{timestamp}: {code}"
        code, _ = await one.offset_told_by(next_leader, timestamp, version=4)
        assert code == ErrorCode.LEADER_NOT_AVAILABLE, f"{timestamp}: {code}"
    assert await one.offset_told_by(next_leader, EARLIEST) == (ErrorCode.NONE, 0)
    next_leader.host.kill()
    await one.until(lambda: one.leader is not next_leader)
    await one.check()


async def a_follower_has_what_the_next_leader_has_not(simulation: Simulation) -> None:
    """Scenario 61: its record is no copy of the one that the next leader has there, until it has truncated its log."""
    one = await replicated(simulation, **NO_LAG)
    leader, (next_leader, diverges) = one.leader, one.followers
    await diverge(one, leader, next_leader, diverges)
    one.network.partition(next_leader.name, diverges.name)
    leader.host.kill()
    await one.until(lambda: one.leader is next_leader)
    await asyncio.sleep(1)
    sending = one.send()
    await asyncio.sleep(0.5)
    diverges.host.hang_workers()
    one.network.heal()
    assert not await is_acknowledged(sending), "acknowledged by a follower that has another record there"
    diverges.host.hang_workers(False)
    assert await is_acknowledged(sending)
    await one.check()


async def a_follower_is_elected_while_it_truncates_its_log(simulation: Simulation) -> None:
    """Scenario 61: it leads when that has ended."""
    one = await replicated(simulation, **NO_LAG)
    leader, (next_leader, truncates) = one.leader, one.followers
    await diverge(one, leader, next_leader, truncates)
    truncates.host.hang_workers()
    leader.host.kill()
    await one.until(lambda: one.leader is next_leader)
    await asyncio.sleep(1)
    next_leader.host.kill()
    await one.until(lambda: one.leader is truncates)
    await asyncio.sleep(1)
    with_leader_alone = one.send(to=truncates, acks=1)
    await asyncio.sleep(1)
    truncates.host.hang_workers(False)
    await with_leader_alone
    await one.check()


async def diverge(one: Replicated, leader: ServedMember, without: ServedMember, with_record: ServedMember) -> None:
    """The leader's next record comes to one follower alone."""
    one.network.partition_one_way(leader.name, without.name)
    sending = one.send(to=leader)
    sending.add_done_callback(lambda done: done.cancelled() or done.exception())
    await one.until(lambda: one.log_end(with_record) == 2)
    await asyncio.sleep(0.2)
    assert one.log_end(without) == 1


async def a_leader_is_paused_past_its_session(simulation: Simulation) -> None:
    """Scenario 62: what it finds when it wakes it cannot acknowledge, and its successor goes on."""
    one = await replicated(simulation)
    old = one.leader
    old.host.pause()
    await asyncio.sleep(SESSION_TIMEOUT_S + 4)
    assert one.leader is not old
    assert await one.send() == ErrorCode.NONE
    late = one.send(to=old)
    await asyncio.sleep(0.1)
    old.host.resume()
    await asyncio.sleep(10)
    assert late.done()
    assert late.result() != ErrorCode.NONE, "acknowledged by a leader whose term is over"
    await one.check()


async def a_leader_is_cut_off_from_zookeeper_past_its_session(simulation: Simulation) -> None:
    """Scenario 68: it takes itself for the leader, and its followers have another one."""
    one = await replicated(simulation)
    old = one.leader
    one.cut_off_from_zookeeper(old)
    await asyncio.sleep(SESSION_TIMEOUT_S + 4)
    assert one.leader is not old
    late = one.send(to=old)
    assert await one.send() == ErrorCode.NONE
    assert not await is_acknowledged(late), "acknowledged by a leader whose term is over"
    one.network.heal()
    await asyncio.sleep(10)
    assert old.broker.node.is_member, "it has not come back by itself"
    assert late.done()
    assert late.result() != ErrorCode.NONE
    await one.check()


async def a_leader_cannot_sync(simulation: Simulation) -> None:
    """Scenario 67: it acknowledges nothing, and leaves the partition to others."""
    one = await replicated(simulation)
    old = one.leader
    fault = DiskFault(Operation.SYNC, times=None)
    old.host.disk.fail(fault)
    assert await one.send() != ErrorCode.NONE, "acknowledged after a sync that failed"
    await one.until(lambda: one.leader is not old)
    await asyncio.sleep(1)
    assert await one.send() == ErrorCode.NONE
    old.host.disk.repair()
    old.host.kill()
    await one.check()


# -- coordinators


async def a_coordinator_dies_while_it_ends_a_transaction(simulation: Simulation) -> None:
    """Scenarios 31 to 34: in one of its next disk operations. Another broker finishes what it has decided, and this one
    comes back when that is done.
    """
    one = await replicated(simulation, transaction_version=str(1 + simulation.seed % 2))
    producer = Producer(
        network=simulation.host(CLIENTS).network,
        clock=simulation.host(CLIENTS).clock,
        random=simulation.random("producer"),
        bootstrap_servers=one.cluster.bootstrap_servers,
        request_timeout_ms=2_000,
        delivery_timeout_ms=60_000,
        max_block_ms=60_000,
        transactional_id="t",
        transaction_timeout_ms=60_000,
    )
    async with producer:
        for value in (b"first", b"second", b"third"):
            async with producer.transaction():
                await producer.send(TOPIC, value, partition=0)
                if value == b"second":
                    dying = coordinator_of_transactions(one.cluster)
                    dying.host.kill_in_disk_operation(1 + simulation.seed)
            one.acknowledged.append(value)
    assert not dying.host.alive, "it has not died"
    await one.check()
    found = await read_committed(one.client(one.leader), PARTITION)
    assert found == [b"1", b"first", b"second", b"third"], found


def coordinator_of_transactions(cluster: ServedCluster) -> ServedMember:
    """Of the only one there is."""
    for member in cluster.brokers.values():
        for partition in member.broker.node.partitions:
            is_its_own = partition.topic_partition.topic == TRANSACTION_STATE_TOPIC and partition.log.log_end_offset
            if is_its_own:
                return member
    raise AssertionError("no coordinator has written anything")


async def a_coordinator_dies_with_a_commit_that_the_next_one_does_not_know_to_be_committed(
    simulation: Simulation,
) -> None:
    """Scenario 36: the next one serves when it has replayed to its log's end."""
    one = await replicated(simulation, **NO_LAG)
    old = await coordinator(one)
    await asyncio.sleep(1)
    committing = asyncio.ensure_future(commit(one.client(old), 20))
    while not committing.done():
        await asyncio.sleep(0.0002)
    assert committing.result() == ErrorCode.NONE
    others = [member for member in one.cluster.brokers.values() if member is not old]
    one.network.partition(others[0].name, others[1].name)
    old.host.kill()
    asking = [asyncio.ensure_future(keep_asking(one, other)) for other in others]
    await asyncio.sleep(3)
    one.network.heal()
    told = await asyncio.gather(*asking)
    assert any(told), "no broker has told an offset"
    assert set().union(*told) == {20}, f"told: {told}"
    await one.check()


async def a_coordinator_is_paused_past_its_session(simulation: Simulation) -> None:
    """Scenarios 36 and 62: it finds the question when it wakes, before it learns that its time is over."""
    one = await replicated(simulation, **NO_LAG)
    old = await coordinator(one)
    asking = one.client(old)
    assert await committed(asking) == 10
    old.host.pause()
    await asyncio.sleep(SESSION_TIMEOUT_S + 4)
    others = [member for member in one.cluster.brokers.values() if member is not old]
    codes = [await commit(one.client(other), 20) for other in others]
    assert ErrorCode.NONE in codes, codes
    question = asyncio.ensure_future(committed(asking))
    await asyncio.sleep(0.1)
    old.host.resume()
    await asyncio.sleep(10)
    assert question.done()
    assert question.result() in (None, 20), "an offset was told that is older than one acknowledged before the question"
    await one.check()


async def coordinator(one: Replicated) -> ServedMember:
    """It has acknowledged offset 10."""
    await find_group_coordinator(one.client(one.leader), GROUP)
    async with asyncio.timeout(60):
        while True:
            for member in one.cluster.brokers.values():
                if await commit(one.client(member), 10) == ErrorCode.NONE:
                    return member
            await asyncio.sleep(0.5)


async def commit(client: WireClient, offset: int) -> int:
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition(0, offset, None, None)])
    answer = await client.call(
        ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic])
    )
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def committed(client: WireClient) -> int | None:
    """None if the broker does not say."""
    asked = [OffsetFetchRequestTopic(TOPIC, [0])]
    answer = await client.call(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(GROUP, asked))
    offset: int = answer.topics[0].partitions[0].committed_offset
    return None if answer.error_code else offset


async def keep_asking(one: Replicated, member: ServedMember) -> set[int]:
    """For a while. Returns the offsets that it was told."""
    told = set()
    for _ in range(60):
        if (offset := await committed(one.client(member))) is not None:
            told.add(offset)
        await asyncio.sleep(0.1)
    return told


def lose_disk(member: ServedMember) -> None:
    member.host.disk.kill()
    member.host.disk.remove_folder("/data")
    member.host.disk.sync_directory("/")


SCENARIOS: Final = (
    a_follower_has_not_synced,
    the_outcome_of_a_shrink_is_not_known,
    the_outcome_of_an_expansion_is_not_known,
    too_few_are_in_sync,
    the_last_follower_leaves_after_the_append,
    a_follower_is_at_the_high_watermark_and_not_at_the_beginning_of_the_term,
    a_broker_comes_back_without_its_disk,
    a_broker_loses_its_disk_while_its_join_is_committed,
    a_session_ends_while_the_join_of_its_broker_is_committed,
    all_die_and_one_comes_back_without_its_disk,
    only_one_that_is_not_in_sync_is_left,
    a_leader_dies_before_it_has_told_the_high_watermark,
    a_follower_has_what_the_next_leader_has_not,
    a_follower_is_elected_while_it_truncates_its_log,
    a_leader_is_paused_past_its_session,
    a_leader_is_cut_off_from_zookeeper_past_its_session,
    a_leader_cannot_sync,
    a_coordinator_dies_while_it_ends_a_transaction,
    a_coordinator_dies_with_a_commit_that_the_next_one_does_not_know_to_be_committed,
    a_coordinator_is_paused_past_its_session,
)
