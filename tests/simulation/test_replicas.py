"""Replicas on three brokers: copying, in-sync sets, elections, controlled stops, coordinators that move."""

from __future__ import annotations

import asyncio
import errno
import itertools
from dataclasses import replace
from typing import Any

import pytest

from semel.broker.cluster.membership import RESIGN_SECONDS_MAX
from semel.broker.replication import follower_sessions
from semel.broker.replication.copier import Copier
from semel.client.producer import Producer
from semel.errors import ErrorCode, KafkaError
from semel.log.partition_log import PartitionLog
from semel.metadata import paths
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import ClusterImage, PartitionState, TopicAltered
from semel.testing.simulation import Simulation, run, simulate
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.latency import constant_ms
from semel.testing.virtual.links import Link
from semel.types import INT32_MAX, TRANSACTION_STATE_TOPIC, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from semel.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from semel.wire.messages.fetch import FetchResponse
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from semel.wire.records import Record, build_batch
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import create_topic
from tests.simulation.served_cluster import INTER_BROKER_PORT, PORT, REPLICATED, ServedCluster, ServedMember
from tests.simulation.wire_client import WireClient
from tests.unit.broker.metrics.test_metrics import numbers

TOPIC = "orders"
PARTITIONS = 3
# Longer than a session and ZooKeeper's tick.
EXPIRY_S = 20.0
_BROKER = 4  # The type of a resource whose settings are those of brokers.


async def started(simulation: Simulation, **settings: str) -> ServedCluster:
    cluster = ServedCluster(simulation, 3, 3, **{**REPLICATED, **settings})
    await cluster.start()
    await create_topic(cluster.client(1), TOPIC, PARTITIONS, replicas=3)
    await asyncio.sleep(1)
    return cluster


def producer(simulation: Simulation, transactional_id: str | None = None, **settings: Any) -> Producer:
    host = simulation.host("clients")
    if transactional_id is not None:
        settings = {"transaction_timeout_ms": 60_000, **settings}
    return Producer(
        network=host.network,
        clock=host.clock,
        random=simulation.random(f"producer {transactional_id}"),
        bootstrap_servers=f"broker-1:{PORT},broker-2:{PORT},broker-3:{PORT}",
        transactional_id=transactional_id,
        **{"request_timeout_ms": 2_000, "delivery_timeout_ms": 60_000, **settings},
    )


def log_of(member: ServedMember, index: int, topic: str = TOPIC) -> PartitionLog:
    log = member.broker.node.logs.get(TopicPartition(topic, index))
    assert log is not None, f"{member.name} has no log of {topic}-{index}"
    return log


def state(cluster: ServedCluster, index: int, topic: str = TOPIC) -> PartitionState:
    """According to the store itself, whatever the brokers know of it."""
    data = cluster.ensemble.tree.nodes[paths.topic_path(topic)].data
    return paths.decode_topic(topic, data).partitions[index]


def leader(cluster: ServedCluster, index: int, topic: str = TOPIC) -> ServedMember:
    leading = state(cluster, index, topic).leader
    assert leading is not None
    return cluster.brokers[leading]


def batches(log: PartitionLog) -> bytes:
    offset, found = log.log_start_offset, b""
    while offset < log.log_end_offset:
        read = log.read_copy(offset, 1_000_000)
        found += read.records
        offset = log.log_end_offset
    return found


def assert_equal_logs(cluster: ServedCluster, topic: str = TOPIC, partitions: int = PARTITIONS) -> None:
    for index in range(partitions):
        logs = [log_of(member, index, topic) for member in cluster.brokers.values()]
        ends = [(log.log_end_offset, log.high_watermark) for log in logs]
        assert len(set(ends)) == 1, f"{topic}-{index}: {ends}"
        assert ends[0][0] == ends[0][1], f"{topic}-{index}: {ends}"
        assert len({batches(log) for log in logs}) == 1, f"{topic}-{index}: the logs differ"
        assert sorted(state(cluster, index, topic).isr) == [1, 2, 3]


async def values(cluster: ServedCluster, index: int) -> list[bytes | None]:
    return await read_committed(cluster.client(leader(cluster, index).node_id), TopicPartition(TOPIC, index))


def test_what_is_acknowledged_is_on_all_in_sync_replicas() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            for number in range(20):
                for index in range(PARTITIONS):
                    sent = await sending.send(TOPIC, b"%d" % number, partition=index)
                    assert sent.offset is not None
                    assert all(log_of(m, index).durable_offset > sent.offset for m in cluster.brokers.values())
        await asyncio.sleep(1)
        assert_equal_logs(cluster)

    run(scenario)


def test_a_follower_that_lacks_records_of_many_partitions_gets_a_few_in_each_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower_sessions, "ANSWER_PARTITIONS_MAX", 5)
    sizes: list[int] = []
    answered = Copier._answered

    def counted(self: Copier, response: FetchResponse | None, fetch: int) -> None:
        if response is not None:
            sizes.append(sum(bool(data.records) for topic in response.responses for data in topic.partitions))
        answered(self, response, fetch)

    monkeypatch.setattr(Copier, "_answered", counted)

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, replica_lag_time_max_ms="500")
        await create_topic(cluster.client(1), "many", 90, replicas=3)
        await asyncio.sleep(1)
        behind, *others = cluster.brokers.values()
        simulation.network.partition(behind.name, *(other.name for other in others))
        await asyncio.sleep(10)
        async with producer(simulation) as sending:
            led = [index for index in range(90) if leader(cluster, index, "many") is not behind]
            await asyncio.gather(*(sending.send("many", b"1", partition=index) for index in led))
        simulation.network.heal()
        await asyncio.sleep(5)
        assert_equal_logs(cluster, "many", 90)
        assert max(sizes) == 5

    run(scenario)


def test_copying_goes_on_when_the_numbers_of_its_fetches_are_used_up() -> None:
    """With a thousand Fetches a second that is after 25 days."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        sessions = []
        for member in cluster.brokers.values():
            replicas, peers = member.broker.node.replicas, member.broker.node.peers
            assert replicas is not None
            assert peers is not None
            for copier in replicas._copiers.values():
                copier._session_epoch = INT32_MAX - 5
                sessions.append((copier, copier._session_number))
            for session in replicas.sessions._sessions.values():
                session.next_epoch = INT32_MAX - 5
            for peer in peers._peers.values():
                peer._correlation_ids = itertools.count(INT32_MAX - 5)
        async with producer(simulation) as sending:
            for number in range(20):
                for index in range(PARTITIONS):
                    await sending.send(TOPIC, b"%d" % number, partition=index)
        await asyncio.sleep(1)
        assert_equal_logs(cluster)
        assert [(copier, copier._session_number) for copier, _ in sessions] == sessions, "no session was begun anew"


def test_every_broker_tells_the_size_of_the_replicas_that_it_has() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"x" * 1000, partition=0)
        await asyncio.sleep(1)
        for asked in (None, [DescribableLogDirTopic(TOPIC, [0])]):
            for node_id, member in cluster.brokers.items():
                response = await cluster.client(node_id).call(
                    ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=asked)
                )
                (result,) = response.results
                sizes = {
                    (topic.name, partition.partition_index): partition.partition_size
                    for topic in result.topics
                    for partition in topic.partitions
                }
                assert sizes[TOPIC, 0] == log_of(member, 0).size_bytes > 1000, f"broker {node_id}"
                assert len(sizes) == (1 if asked else PARTITIONS)

    run(scenario)


@pytest.mark.parametrize("is_busy", [True, False])
def test_the_death_of_a_broker_that_leads_nothing_is_noticed_before_its_session_ends(is_busy: bool) -> None:
    """Acknowledgements wait for it until it is out of the in-sync sets, and no broker has a reason to connect to it.
    Its Fetch may wait when it dies, or may just have been answered."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        dying = leader(cluster, 0)
        dying.host.kill()
        await asyncio.sleep(EXPIRY_S)
        dying.start()
        await dying.until_up()
        async with producer(simulation) as sending:
            while any(sorted(state(cluster, index).isr) != [1, 2, 3] for index in range(PARTITIONS)):
                await asyncio.sleep(0.1)
            assert all(leader(cluster, index) is not dying for index in range(PARTITIONS))
            await sending.send(TOPIC, b"before", partition=0)
            if is_busy:
                while log_of(dying, 0).log_end_offset < 2:
                    sending.send(TOPIC, b"before", partition=0)
                    await asyncio.sleep(0.0001)
            else:
                await asyncio.sleep(1)
            dying.host.kill()
            struck_s = simulation.loop.time()
            for index in range(PARTITIONS):
                await sending.send(TOPIC, b"after", partition=index)
            assert simulation.loop.time() - struck_s < 2

    run(scenario)


@pytest.mark.parametrize("restarts", [True, False])
def test_the_death_of_a_leader_loses_nothing_and_stops_nothing(restarts: bool) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            for number in range(60):
                await sending.send(TOPIC, b"%d" % number, partition=0)
                if number in (20, 40):
                    dying = leader(cluster, 0)
                    dying.host.kill()
                    if restarts:
                        dying.start()
                        await dying.until_up()
                if number == 40 and not restarts:
                    break
                if number == 20 and not restarts:
                    await asyncio.sleep(EXPIRY_S)
                    dying.start()
                    await dying.until_up()
                    await asyncio.sleep(5)
            if not restarts:
                for number in range(41, 60):
                    await sending.send(TOPIC, b"%d" % number, partition=0)
        for member in cluster.brokers.values():
            if not member.host.alive:
                member.start()
                await member.until_up()
        await asyncio.sleep(10)
        assert_equal_logs(cluster)
        assert await values(cluster, 0) == [b"%d" % number for number in range(60)]

    run(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_a_follower_that_is_back_is_in_sync_as_soon_as_it_has_everything(seed: int) -> None:
    """Whichever its leader learns first: that it is registered, or that it has everything."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, replica_lag_time_max_ms="600000")
        async with producer(simulation) as sending:
            for index in range(PARTITIONS):
                await sending.send(TOPIC, b"before", partition=index)
            for member in cluster.brokers.values():
                member.host.kill()
                await asyncio.sleep(EXPIRY_S)
                member.start()
                await member.until_up()
                await asyncio.sleep(3)
                assert [sorted(state(cluster, index).isr) for index in range(PARTITIONS)] == [[1, 2, 3]] * PARTITIONS

    run(scenario, seed=seed)


@pytest.mark.parametrize("transaction_version", ["1", "2"])
def test_transactions_go_on_while_one_broker_after_the_other_dies(transaction_version: str) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, transaction_version=transaction_version)
        async with producer(simulation, "t") as sending:
            for number in range(30):
                async with sending.transaction():
                    for index in range(PARTITIONS):
                        await sending.send(TOPIC, b"%d" % number, partition=index)
                if number % 8 == 5:
                    dying = cluster.brokers[number // 8 % 3 + 1]
                    dying.host.kill()
                    await asyncio.sleep(3)
                    dying.start()
                    await dying.until_up()
        await asyncio.sleep(20)
        assert_equal_logs(cluster)
        assert_equal_logs(cluster, TRANSACTION_STATE_TOPIC, 6)
        for index in range(PARTITIONS):
            assert await values(cluster, index) == [b"%d" % number for number in range(30)]

    run(scenario)


def test_a_controlled_stop_hands_leaderships_over_first() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"before", partition=0)
            stopping = leader(cluster, 0)
            began_s = simulation.loop.time()
            await stopping.broker.stop()
            assert simulation.loop.time() - began_s < 2
            stopping.host.kill()
            began_s = simulation.loop.time()
            await sending.send(TOPIC, b"after", partition=0)
            assert simulation.loop.time() - began_s < 1
        assert leader(cluster, 0) is not stopping
        assert stopping.node_id not in state(cluster, 0).isr

    run(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_a_controlled_stop_does_not_wait_for_partitions_that_are_led_already(seed: int) -> None:
    """Also where a follower was faster than its leader, and was refused at first."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation, "t") as sending, sending.transaction():
            await sending.send(TOPIC, b"makes the topic of transactions", partition=0)
        for stopping in cluster.brokers.values():
            began_s = simulation.loop.time()
            await stopping.broker.stop()
            assert simulation.loop.time() - began_s < RESIGN_SECONDS_MAX
            stopping.host.kill()
            stopping.start()
            await stopping.until_up()
            await asyncio.sleep(3)

    simulate(seed, scenario)


def test_a_follower_that_lost_its_disk_copies_from_the_middle_of_a_batch_on() -> None:
    """DeleteRecords has put the log start between two records of one batch, and the batch comes whole."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation, linger_ms=50) as sending:
            await asyncio.gather(*(sending.send(TOPIC, b"%d" % number, partition=0) for number in range(10)))
        leading = leader(cluster, 0)
        deleted = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 5)])
        answer = await cluster.client(leading.node_id).call(
            ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[deleted], timeout_ms=5_000)
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        losing = next(member for member in cluster.brokers.values() if member is not leading)
        losing.host.kill()
        await asyncio.sleep(EXPIRY_S)
        cluster.brokers[losing.node_id] = replaced = cluster.stranger(losing.node_id)
        replaced.start()
        await replaced.until_up()
        await asyncio.sleep(5)
        assert_equal_logs(cluster)
        assert {log_of(member, 0).log_start_offset for member in cluster.brokers.values()} == {5}

    run(scenario)


def test_a_leader_whose_disk_fails_gives_up_and_the_others_go_on() -> None:
    """Scenario 67."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"before", partition=0)
            failing = leader(cluster, 0)
            failing.host.disk.fail(DiskFault(Operation.WRITE, "*/orders-0/*.log", times=None))
            began_s = simulation.loop.time()
            await sending.send(TOPIC, b"after", partition=0)
            assert simulation.loop.time() - began_s < 2
            assert leader(cluster, 0) is not failing
            assert failing.node_id not in state(cluster, 0).isr
            assert failing.node_id in state(cluster, 1).isr, "other partitions are not concerned"
        assert await values(cluster, 0) == [b"before", b"after"]

    run(scenario)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_leader_that_cannot_make_its_log_gives_up_until_it_can(error: int) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        failing = cluster.brokers[1]
        fault = DiskFault(Operation.MAKE_FOLDER, "*/new-0", error=error, times=None)
        failing.host.disk.fail(fault)
        topic = CreatableTopic(name="new", num_partitions=-1, replication_factor=-1)
        topic.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])]
        answer = await cluster.client(2).call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == ErrorCode.NONE
        async with producer(simulation) as sending:
            began_s = simulation.loop.time()
            await sending.send("new", b"1")
            assert simulation.loop.time() - began_s < 2
        assert (leader(cluster, 0, "new").node_id, state(cluster, 0, "new").isr) == (2, (2, 3))
        fault.times = 0
        await asyncio.sleep(10)
        assert_equal_logs(cluster, "new", 1)
        assert failing.broker.node.partitions.unavailable == {}, "its metric counts no partition as offline any more"

    run(scenario)


def test_a_follower_whose_disk_fails_leaves_the_in_sync_set_by_itself() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        leading = leader(cluster, 0)
        failing = next(member for member in cluster.brokers.values() if member is not leading)
        failing.host.disk.fail(DiskFault(Operation.WRITE, "*/orders-0/*.log", times=None))
        async with producer(simulation) as sending:
            began_s = simulation.loop.time()
            await sending.send(TOPIC, b"1", partition=0)
            assert simulation.loop.time() - began_s < 2
        assert failing.node_id not in state(cluster, 0).isr

    run(scenario)


def test_a_follower_whose_log_is_offline_does_not_join_the_in_sync_set_again_with_what_it_had() -> None:
    """It had everything when the sync of a checkpoint failed, and nothing is written afterwards."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"1", partition=0)
        await asyncio.sleep(0.05)
        failing = next(member for member in cluster.brokers.values() if member is not leader(cluster, 0))
        failing.host.disk.fail(DiskFault(Operation.SYNC, "*/orders-0/*.log", times=None))
        failing.host.disk.fail(DiskFault(Operation.SYNC_ALL, times=None))
        failing.broker.node.logs.checkpoint()
        await asyncio.sleep(1)
        assert log_of(failing, 0).offline is not None
        assert failing.node_id not in state(cluster, 0).isr
        await asyncio.sleep(30)
        assert failing.node_id not in state(cluster, 0).isr

    run(scenario)


@pytest.mark.parametrize("wait_s", [0.0, 0.2, 0.4, 0.6, 0.8])
def test_a_follower_whose_log_is_offline_does_not_join_again_by_a_fetch_that_it_sent_before(wait_s: float) -> None:
    """Nothing is written, so its Fetches do not name the partition: they tell nothing of it."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"1", partition=0)
        leading = leader(cluster, 0)
        failing = next(member for member in cluster.brokers.values() if member is not leading)
        simulation.network.set_link(leading.name, failing.name, Link(latency=constant_ms(200)))
        await asyncio.sleep(2 + wait_s)  # A Fetch is on its way, or waits at the leader, or its response is on its way.
        log_of(failing, 0).go_offline("its disk failed")
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert failing.node_id not in state(cluster, 0).isr

    run(scenario)


@pytest.mark.parametrize("wait_s", [0.3, 0.5, 0.6, 0.8])
def test_a_follower_whose_log_is_offline_leaves_again_if_a_fetch_that_it_sent_before_has_taken_it_back(
    wait_s: float,
) -> None:
    """Its position had changed, so the Fetch names the partition. It arrives when the leader knows that it has left."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        leading = leader(cluster, 0)
        failing = next(member for member in cluster.brokers.values() if member is not leading)
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"1", partition=0)
            simulation.network.set_link(leading.name, failing.name, Link(latency=constant_ms(200)))
            await asyncio.sleep(3)
            sent = asyncio.ensure_future(sending.send(TOPIC, b"2", partition=0))
            await asyncio.sleep(wait_s)
            log_of(failing, 0).go_offline("its disk failed")
            await sent
            await asyncio.sleep(3)
            assert failing.node_id not in state(cluster, 0).isr

    run(scenario)


def test_a_follower_that_another_broker_removed_is_in_sync_again_although_nothing_is_written() -> None:
    """An election may have removed it that knew less than the leader, which has had its Fetch already."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"1", partition=0)
        await asyncio.sleep(1)
        leading = leader(cluster, 0)
        removed, other = (member for member in cluster.brokers.values() if member is not leading)

        def without(image: ClusterImage) -> MetadataDecision[None]:
            topic = image.topics[TOPIC]
            shrunk = replace(topic.partitions[0], isr=(leading.node_id, other.node_id), partition_epoch=99)
            return MetadataDecision((TopicAltered(replace(topic, partitions=(shrunk, *topic.partitions[1:]))),), ())

        await other.broker.node.cluster.change(without)
        assert removed.node_id not in state(cluster, 0).isr
        await asyncio.sleep(1)
        assert_equal_logs(cluster)

    run(scenario)


def test_a_partition_that_is_left_without_a_leader_while_others_could_lead_gets_one() -> None:
    """A broker gives its leadership up, and does not know yet that another one of the set has registered again."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        leading = leader(cluster, 0)
        others = tuple(replica for replica in state(cluster, 0).isr if replica != leading.node_id)

        def given_up(image: ClusterImage) -> MetadataDecision[None]:
            topic = image.topics[TOPIC]
            left = replace(topic.partitions[0], leader=None, leader_epoch=9, isr=others, partition_epoch=99)
            return MetadataDecision((TopicAltered(replace(topic, partitions=(left, *topic.partitions[1:]))),), ())

        await leading.broker.node.cluster.change(given_up)
        assert state(cluster, 0).leader is None
        await asyncio.sleep(1)
        assert state(cluster, 0).leader in others
        assert_equal_logs(cluster)

    run(scenario)


def test_records_that_were_deleted_do_not_come_back_with_another_leader() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            for number in range(10):
                await sending.send(TOPIC, b"%d" % number, partition=0)
        leading = leader(cluster, 0)
        deleted = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 7)])
        answer = await cluster.client(leading.node_id).call(
            ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[deleted], timeout_ms=5_000)
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        leading.host.kill()
        for member in cluster.brokers.values():
            if member is not leading:
                assert log_of(member, 0).log_start_offset == 7, member.name
                member.host.cut_power()
                member.start()
                await member.until_up()
        await asyncio.sleep(EXPIRY_S)
        assert log_of(leader(cluster, 0), 0).log_start_offset == 7

    run(scenario)


def test_records_are_not_reported_as_deleted_by_a_leader_whose_term_ended_meanwhile() -> None:
    """Its followers may not know the new log start, and one of them leads now."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation) as sending:
            for number in range(10):
                await sending.send(TOPIC, b"%d" % number, partition=0)
        leading = leader(cluster, 0)
        deleted = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 7)])
        client = cluster.client(leading.node_id)
        asked = await client.send(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[deleted], timeout_ms=5_000))
        while log_of(leading, 0).log_start_offset < 7:
            await asyncio.sleep(0.00001)
        assert log_of(leading, 0).persisted_log_start_offset < 7, "the worker is writing it"
        leading.broker.node.partitions.resign(TopicPartition(TOPIC, 0))
        answer = await client.answer(asked)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario)


@pytest.mark.parametrize(("brokers", "replicas"), [(2, 1), (3, 3), (5, 3)])
def test_how_many_replicas_a_topic_has_does_not_depend_on_who_is_away_when_it_is_made(
    brokers: int, replicas: int
) -> None:
    async def scenario(simulation: Simulation) -> None:
        factors = dict.fromkeys(REPLICATED, str(replicas))
        cluster = ServedCluster(simulation, brokers, servers=3, **factors)
        await cluster.start()

        async def made(name: str) -> int:
            topics = [CreatableTopic(name=name, num_partitions=brokers, replication_factor=-1)]
            answer = await cluster.client(1).call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=topics))
            code: int = answer.topics[0].error_code
            return code

        assert await made("before") == ErrorCode.NONE
        for away in list(cluster.brokers.values())[2:]:
            away.host.kill()
        await asyncio.sleep(EXPIRY_S)
        assert await made("meanwhile") == (ErrorCode.NONE if brokers == 2 else ErrorCode.INVALID_REPLICATION_FACTOR)
        for away in list(cluster.brokers.values())[2:]:
            away.start()
            await away.until_up()
        await asyncio.sleep(1)
        assert await made("after") == ErrorCode.NONE
        for name in ("before", "after"):
            assert all(len(state(cluster, index, name).replicas) == replicas for index in range(brokers))
        assert log_of(leader(cluster, 0, "before"), 0, "before").config.min_insync_replicas == 2

    run(scenario)


def test_too_few_in_sync_replicas_refuse_acks_all_and_take_acks_1() -> None:
    """Scenario 58."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        leading = leader(cluster, 0)
        for member in cluster.brokers.values():
            if member is not leading:
                member.host.kill()
        await asyncio.sleep(EXPIRY_S)
        assert state(cluster, 0).isr == (leading.node_id,)
        async with producer(simulation, delivery_timeout_ms=5_000, request_timeout_ms=2_000) as sending:
            with pytest.raises(KafkaError) as refused:
                await sending.send(TOPIC, b"all", partition=0)
            assert "NOT_ENOUGH_REPLICAS" in str(refused.value)
        async with producer(simulation, acks=1, enable_idempotence=False) as sending:
            await sending.send(TOPIC, b"one", partition=0)
        log = log_of(leading, 0)
        assert (log.durable_offset, log.high_watermark) == (1, 0)

    run(scenario)


def test_markers_for_a_partition_with_too_few_in_sync_replicas_do_not_delay_those_for_others() -> None:
    """A coordinator sends one request at a time to a broker, with the markers of all transactions."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        leading = leader(cluster, 0)
        for member in cluster.brokers.values():
            if member is not leading:
                member.host.kill()
        await asyncio.sleep(EXPIRY_S)
        log = log_of(leading, 0)
        end_offset = log.log_end_offset
        marker = WritableTxnMarker(1, 0, False, [WritableTxnMarkerTopic(TOPIC, [0])])
        answer = await cluster.client(leading.node_id).call(
            ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker])
        )
        (result,) = answer.markers[0].topics[0].partitions
        assert result.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert log.log_end_offset == end_offset

    run(scenario)


def test_records_become_visible_when_fewer_in_sync_replicas_are_required_of_all_topics() -> None:
    """Nothing else happens in the partition that would move its high watermark."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        leading = leader(cluster, 0)
        for member in cluster.brokers.values():
            if member is not leading:
                member.host.kill()
        await asyncio.sleep(EXPIRY_S)
        async with producer(simulation, acks=1, enable_idempotence=False) as sending:
            await sending.send(TOPIC, b"one", partition=0)
        log = log_of(leading, 0)
        assert (log.durable_offset, log.high_watermark) == (1, 0)
        fewer = AlterableConfig("min.insync.replicas", 0, "1")
        of_all_brokers = AlterConfigsResource(_BROKER, "", [fewer])
        answer = await cluster.client(leading.node_id).call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[of_all_brokers])
        )
        assert answer.responses[0].error_code == ErrorCode.NONE
        assert log.high_watermark == 1

    run(scenario)


def test_the_preferred_replica_leads_again_when_it_is_told_to() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        first = leader(cluster, 0)
        first.host.kill()
        await asyncio.sleep(EXPIRY_S)
        first.start()
        await first.until_up()
        await asyncio.sleep(5)
        assert leader(cluster, 0) is not first
        asked = ElectLeadersRequest(election_type=0, topic_partitions=[TopicPartitions(TOPIC, [0, 1])])
        answer = await cluster.client(1).call(ApiKey.ELECT_LEADERS, 2, asked)
        (topic,) = answer.replica_election_results
        assert topic.partition_result[0].error_code == ErrorCode.NONE
        assert leader(cluster, 0) is first

    run(scenario)


def test_an_unclean_election_is_made_by_hand_only() -> None:
    """Scenario 63."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        leading = leader(cluster, 0)
        others = [member for member in cluster.brokers.values() if member is not leading]
        for member in others:
            member.host.kill()
        await asyncio.sleep(EXPIRY_S)
        async with producer(simulation, acks=1, enable_idempotence=False) as sending:
            await sending.send(TOPIC, b"lost", partition=0)
        leading.host.kill()
        for member in others:
            member.start()
            await member.until_up()
        await asyncio.sleep(EXPIRY_S)
        known = state(cluster, 0)
        assert known.isr == (leading.node_id,)
        assert others[0].broker.node.image.leader(known) is None, "no replica that is there was in sync"
        asked = ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(TOPIC, [0])])
        answer = await cluster.client(others[0].node_id).call(ApiKey.ELECT_LEADERS, 2, asked)
        assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
        leading.start()
        await leading.until_up()
        async with producer(simulation) as sending:
            await sending.send(TOPIC, b"kept", partition=0)
        await asyncio.sleep(10)
        assert_equal_logs(cluster)
        assert await values(cluster, 0) == [b"kept"]

    run(scenario)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_an_unclean_election_leaves_no_transaction_open_that_is_complete__scenario_63(commits: bool) -> None:
    """A power cut takes unsynced markers from all replicas. Each broker starts without a partition to lead, and a
    replica that lacks the marker is elected by hand, long after the start."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, flush="os")
        async with producer(simulation, "t") as sending:
            sending.begin()
            for index in range(PARTITIONS):
                await sending.send(TOPIC, b"record", partition=index)
            await sending.flush()
            for member in cluster.brokers.values():
                member.broker.node.logs.checkpoint()
            await asyncio.sleep(2)
            await (sending.commit() if commits else sending.abort())
            await asyncio.sleep(0.2)
        for member in cluster.brokers.values():
            member.host.cut_power()
        for member in cluster.brokers.values():
            member.start()
        for member in cluster.brokers.values():
            await member.until_up()
        await asyncio.sleep(10)
        assert all(state(cluster, index).isr == () for index in range(PARTITIONS)), "they wait for a person"
        asked = ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(TOPIC, list(range(PARTITIONS)))])
        await cluster.client(1).call(ApiKey.ELECT_LEADERS, 2, asked)
        await asyncio.sleep(10)
        for index in range(PARTITIONS):
            log = log_of(leader(cluster, index), index)
            assert log.last_stable_offset == log.high_watermark == log.log_end_offset
            assert await values(cluster, index) == ([b"record"] if commits else [])

    run(scenario)


def test_a_follower_describes_the_producers_of_its_replica() -> None:
    """kafka-transactions find-hanging --broker-id asks a broker about all its replicas (KIP-664)."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation, "t") as sending:
            sending.begin()
            await sending.send(TOPIC, b"record", partition=0)
            await asyncio.sleep(1)
            request = DescribeProducersRequest([TopicRequest(TOPIC, [0, PARTITIONS])])
            described = [
                (await cluster.client(node_id).call(ApiKey.DESCRIBE_PRODUCERS, 0, request)).topics[0].partitions
                for node_id in cluster.brokers
            ]
            assert described[0] == described[1] == described[2]
            known, unknown = described[0]
            assert known.error_code == ErrorCode.NONE
            assert [found.current_txn_start_offset for found in known.active_producers] == [0]
            assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await sending.abort()

    run(scenario)


async def with_an_unknown_transaction(simulation: Simulation) -> tuple[ServedCluster, ServedMember]:
    """A cluster with coordinators, and the leader of a partition with a transaction that no coordinator knows."""
    cluster = await started(simulation)
    async with producer(simulation, "t") as sending:
        sending.begin()
        await sending.send(TOPIC, b"record", partition=0)
        await sending.commit()
    member = leader(cluster, 0)
    partition = member.broker.node.partitions.get(TOPIC, 0)
    assert partition is not None
    unknown = build_batch(
        [Record(0, 0, None, b"lost")], producer_id=10**6, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    partition.append(memoryview(bytearray(unknown)), 0)
    await asyncio.sleep(1)
    return cluster, member


def test_open_transactions_are_checked_also_if_the_shard_that_is_waited_for_is_lost_while_it_is_loaded() -> None:
    """The broker takes over a partition and a shard of the coordinator, and the shard moves on before it is loaded."""

    async def scenario(simulation: Simulation) -> None:
        cluster, member = await with_an_unknown_transaction(simulation)
        node = member.broker.node
        shard = next(iter(node.coordinators.transactions))
        shard.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        index = shard.partition.topic_partition.partition
        await node.cluster.change(lambda image: next_term(image, TOPIC, 0, member.node_id))
        await asyncio.sleep(1)
        assert log_of(member, 0).last_stable_offset < log_of(member, 0).high_watermark
        other = next(node_id for node_id in cluster.brokers if node_id != member.node_id)
        await node.cluster.change(lambda image: next_term(image, TRANSACTION_STATE_TOPIC, index, other))
        await asyncio.sleep(10)
        assert log_of(member, 0).last_stable_offset == log_of(member, 0).high_watermark
        assert await values(cluster, 0) == [b"record"]

    run(scenario)


def test_open_transactions_are_checked_also_by_a_broker_with_a_damaged_replica_of_the_coordinators_topic() -> None:
    """Another broker leads that shard, and can be asked."""

    async def scenario(simulation: Simulation) -> None:
        cluster, member = await with_an_unknown_transaction(simulation)
        node = member.broker.node
        topic = node.image.topics[TRANSACTION_STATE_TOPIC]
        index = next(index for index, state in enumerate(topic.partitions) if state.leader != member.node_id)
        node.partitions.unavailable[TRANSACTION_STATE_TOPIC, index] = "damaged"
        await node.cluster.change(lambda image: next_term(image, TOPIC, 0, member.node_id))
        await asyncio.sleep(10)
        assert log_of(member, 0).last_stable_offset == log_of(member, 0).high_watermark
        assert await values(cluster, 0) == [b"record"]

    run(scenario)


def test_a_broker_without_its_replica_of_a_shard_still_says_who_coordinates_its_ids() -> None:
    """Another broker leads the shard, and any broker may be asked."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        find = FindCoordinatorRequest(key="t", key_type=1)
        while (found := await cluster.client(1).call(ApiKey.FIND_COORDINATOR, 3, find)).error_code:
            await asyncio.sleep(0.1)
        asked = next(member for node_id, member in cluster.brokers.items() if node_id != found.node_id)
        index = asked.broker.node.coordinators.transactions.partition_for("t")
        asked.broker.node.partitions.unavailable[TRANSACTION_STATE_TOPIC, index] = "its log could not be made"
        answer = await cluster.client(asked.node_id).call(ApiKey.FIND_COORDINATOR, 3, find)
        assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, found.node_id)

    run(scenario)


def test_clients_look_for_a_coordinator_again_while_its_failed_log_makes_it_resign() -> None:
    """An error that is final for them would be sent for a moment in which nothing is lost."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        find = FindCoordinatorRequest(key="t", key_type=1)
        while (found := await cluster.client(1).call(ApiKey.FIND_COORDINATOR, 3, find)).error_code:
            await asyncio.sleep(0.1)
        node = cluster.brokers[found.node_id].broker.node
        partition = node.partitions.get(TRANSACTION_STATE_TOPIC, node.coordinators.transactions.partition_for("t"))
        assert partition is not None
        await asyncio.sleep(1)
        partition.log.go_offline("its disk has failed")
        errors = set()
        while (answer := await cluster.client(1).call(ApiKey.FIND_COORDINATOR, 3, find)).node_id in (
            found.node_id,
            None,
        ):
            errors.add(answer.error_code)
            await asyncio.sleep(0.001)
        assert errors <= {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}

    run(scenario)


def test_a_coordinator_that_cannot_load_its_shard_because_of_damage_leaves_it_to_another_replica() -> None:
    """A batch that was flipped inside a follower's segment is found when the follower leads."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation, "t") as sending:
            sending.begin()
            await sending.send(TOPIC, b"first", partition=0)
            await sending.commit()
        await asyncio.sleep(1)
        shard = next(
            runtime.partition.topic_partition
            for member in cluster.brokers.values()
            for runtime in member.broker.node.coordinators.transactions
            if runtime.shard.get("t") is not None
        )
        member = leader(cluster, shard.partition, TRANSACTION_STATE_TOPIC)
        segment = log_of(member, shard.partition, TRANSACTION_STATE_TOPIC).segments.active
        segment.file.write(segment.size_bytes - 3, b"\xff")
        await member.broker.node.cluster.change(
            lambda image: next_term(image, TRANSACTION_STATE_TOPIC, shard.partition, member.node_id)
        )
        await asyncio.sleep(5)
        assert leader(cluster, shard.partition, TRANSACTION_STATE_TOPIC) is not member
        async with producer(simulation, "t") as sending:
            sending.begin()
            await sending.send(TOPIC, b"second", partition=0)
            await sending.commit()
        await asyncio.sleep(1)
        assert await values(cluster, 0) == [b"first", b"second"]

    run(scenario)


def next_term(image: ClusterImage, name: str, index: int, leader: int) -> MetadataDecision[None]:
    topic = image.topics[name]
    states = list(topic.partitions)
    states[index] = replace(states[index], leader=leader, leader_epoch=states[index].leader_epoch + 1)
    return MetadataDecision((TopicAltered(replace(topic, partitions=tuple(states))),), ())


def test_metrics_tell_what_becomes_of_replicas() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        client = cluster.client(1)
        await create_topic(client, "single", 3)
        async with producer(simulation, "t"):
            await asyncio.sleep(5)
            whole = [metrics_of(member) for member in cluster.brokers.values()]
            for name in ("under_replicated", "under_min_isr", "leaderless"):
                assert [found[f"semel_partitions_{name}"] for found in whole] == [0, 0, 0]
            assert [found["semel_replication_lag_max"] for found in whole] == [0, 0, 0]
            assert [found["semel_cluster_member"] for found in whole] == [1, 1, 1]
            assert [found["semel_zookeeper_connected"] for found in whole] == [1, 1, 1]
            await asyncio.gather(
                *(one.call(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest()) for one in cluster.clients())
            )
            assert sum(found["semel_confirmation_seconds_count"] for found in whole) < sum(
                metrics_of(member)["semel_confirmation_seconds_count"] for member in cluster.brokers.values()
            )
        followed = whole[0]["semel_partitions_followed"] + len(cluster.brokers[1].broker.node.partitions)
        assert followed == len(cluster.brokers[1].broker.node.logs.logs)

        leading = leader(cluster, 0)
        follower = next(member for member in cluster.brokers.values() if member is not leading)
        async with producer(simulation, acks=1, enable_idempotence=False) as sending:
            follower.host.hang_workers()
            await sending.send(TOPIC, b"record", partition=0)
            await asyncio.sleep(1)
            assert metrics_of(leading)["semel_replication_lag_max"] == 1
            follower.host.hang_workers(False)
            await asyncio.sleep(1)
            assert metrics_of(leading)["semel_replication_lag_max"] == 0

        dying, suspended, last = cluster.brokers[3], cluster.brokers[2], cluster.brokers[1]
        led = len([one for one in dying.broker.node.partitions if one.replicas is not None])
        dying.host.kill()
        await asyncio.sleep(EXPIRY_S)
        left = [metrics_of(last), metrics_of(suspended)]
        replicated = sum(len(topic.partitions) for topic in cluster.image.topics.values()) - 3
        assert sum(found["semel_partitions_under_replicated"] for found in left) == replicated
        assert [found["semel_partitions_leaderless"] for found in left] == [1, 1]
        assert sum(found["semel_elections_total"] for found in left) == led

        simulation.network.partition(suspended.name, *(server.name for server in cluster.servers))
        await asyncio.sleep(5)
        assert metrics_of(suspended)["semel_zookeeper_connected"] == 0
        assert metrics_of(suspended)["semel_cluster_member"] == 1, "its session may go on"
        await asyncio.sleep(EXPIRY_S)
        before = metrics_of(last)
        assert before["semel_partitions_under_min_isr"] == replicated
        simulation.network.heal()
        await asyncio.sleep(EXPIRY_S)
        assert metrics_of(last)["semel_isr_changes_total"] > before["semel_isr_changes_total"], "one came back"
        assert metrics_of(suspended)["semel_zookeeper_connected"] == metrics_of(suspended)["semel_cluster_member"] == 1

    run(scenario)


def metrics_of(member: ServedMember) -> dict[str, float]:
    return numbers(member.broker.metrics.render())


def test_a_broker_that_asks_for_transactions_gets_all_of_them_or_an_error() -> None:
    """It ends what is missing in the answer: a shard whose term ends while the answer is confirmed is not left out."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation, "t") as sending:
            sending.begin()
            await sending.send(TOPIC, b"record", partition=0)
            member, shard = next(
                (member, runtime.partition)
                for member in cluster.brokers.values()
                if (coordinators := member.broker.node.active_coordinators) is not None
                for runtime in coordinators.transactions
                if runtime.shard.get("t") is not None
            )
            asking = WireClient(
                simulation.host("clients").network,
                member.name,
                INTER_BROKER_PORT,
                client_id="semel-broker/9/questions/1/1",
            )
            whole = await asking.call(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest())
            assert [listed.transactional_id for listed in whole.transaction_states] == ["t"]
            simulation.network.partition(member.name, *(other.name for other in cluster.brokers.values()))
            answer = await asking.send(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest())
            while not shard.has_unconfirmed:
                await asyncio.sleep(0.001)
            member.broker.node.partitions.resign(shard.topic_partition)
            simulation.network.heal()
            assert (await asking.answer(answer)).error_code == ErrorCode.NOT_COORDINATOR
            await sending.close(timeout_ms=0)

    run(scenario)
