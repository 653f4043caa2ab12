"""Several brokers, one cluster: they join, lose their sessions, share topics, and reach each other's partitions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from semel.client.producer import Producer
from semel.errors import ErrorCode, StorageError
from semel.log.disk import write_file
from semel.log.durability.checkpoints import MetaProperties, write_meta_properties
from semel.metadata import paths
from semel.metadata.image import PartitionState
from semel.metadata.paths import broker_path
from semel.metadata.store import compare_and_set
from semel.metadata.zookeeper import sequence
from semel.metadata.zookeeper import store as store_module
from semel.metadata.zookeeper.store import ZooKeeperStore
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.zookeeper.ensemble import Transaction
from semel.testing.zookeeper.session import ModelSession
from semel.types import TRANSACTION_STATE_TOPIC, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import create_topic
from tests.simulation.served_cluster import PORT, REPLICATED, ServedCluster, ServedMember

TOPIC = "orders"
PARTITIONS = 6
# Longer than a session and ZooKeeper's tick.
EXPIRY_S = 20.0


async def started(simulation: Simulation, **settings: str) -> ServedCluster:
    cluster = ServedCluster(simulation, **settings)
    await cluster.start()
    await create_topic(cluster.client(1), TOPIC, PARTITIONS)
    await asyncio.sleep(1)
    return cluster


def producer(simulation: Simulation, transactional_id: str | None, **settings: Any) -> Producer:
    host = simulation.host("clients")
    return Producer(
        network=host.network,
        clock=host.clock,
        random=simulation.random(transactional_id or "producer"),
        bootstrap_servers=f"broker-1:{PORT},broker-2:{PORT},broker-3:{PORT}",
        request_timeout_ms=2_000,
        delivery_timeout_ms=20_000,
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        **settings,
    )


async def committed(cluster: ServedCluster) -> dict[int, list[bytes | None]]:
    found = {}
    for index in range(PARTITIONS):
        leader = cluster.led_by(TOPIC, index)
        assert leader is not None
        found[index] = await read_committed(cluster.client(leader), TopicPartition(TOPIC, index))
    return found


def everywhere(*values: bytes) -> dict[int, list[bytes]]:
    return {index: list(values) for index in range(PARTITIONS)}


def coordinator_of(cluster: ServedCluster, transactional_id: str) -> int:
    for node_id, member in cluster.brokers.items():
        coordinators = member.broker.node.active_coordinators
        for runtime in () if coordinators is None else coordinators.transactions:
            if runtime.shard.get(transactional_id) is not None:
                return node_id
    raise AssertionError(f"no broker coordinates {transactional_id}")


def epochs(cluster: ServedCluster) -> list[int]:
    return [state.leader_epoch for state in cluster.brokers[1].broker.node.image.topics[TOPIC].partitions]


def test_a_topic_made_on_one_broker_is_led_by_all_and_known_to_all() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        controllers = set()
        for node_id in (1, 2, 3):
            answer = await cluster.client(node_id).call(
                ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            )
            assert sorted(broker.node_id for broker in answer.brokers) == [1, 2, 3]
            controllers.add(answer.controller_id)
            (topic,) = answer.topics
            assert topic.error_code == ErrorCode.NONE
            assert sorted(partition.leader_id for partition in topic.partitions) == [1, 1, 2, 2, 3, 3]
        assert len(controllers) == 1
        led = {node_id: len(member.broker.node.partitions) for node_id, member in cluster.brokers.items()}
        assert led == {1: 2, 2: 2, 3: 2}

    run(scenario)


@pytest.mark.parametrize("transaction_version", ["1", "2"])
def test_a_transaction_ends_on_the_partitions_of_all_brokers(transaction_version: str) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, transaction_version=transaction_version)
        async with producer(simulation, "t") as sending:
            for number in range(4):
                async with sending.transaction():
                    for index in range(PARTITIONS):
                        await sending.send(TOPIC, b"%d" % number, partition=index)
        await asyncio.sleep(1)
        assert await committed(cluster) == everywhere(b"0", b"1", b"2", b"3")

    run(scenario)


def test_an_open_transaction_survives_the_death_of_a_broker_that_does_not_coordinate_it() -> None:
    """The restarted broker finds it open in its log, and asks the coordinator before it ends anything."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        async with producer(simulation, "t") as sending:
            coordinator = coordinator_of(cluster, "t")
            dying = next(member for node_id, member in cluster.brokers.items() if node_id != coordinator)
            async with sending.transaction():
                for index in range(PARTITIONS):
                    await sending.send(TOPIC, b"before", partition=index)
                dying.host.kill()
                dying.start()
                await dying.until_up()
                await asyncio.sleep(5)
                for index in range(PARTITIONS):
                    await sending.send(TOPIC, b"after", partition=index)
        await asyncio.sleep(1)
        assert await committed(cluster) == everywhere(b"before", b"after")

    run(scenario)


async def ask_until_up(cluster: ServedCluster, member: ServedMember) -> int:
    """A client that asks for coordinators from the moment on that the port is open. Returns how many answers it got
    before the broker led anything."""
    early = 0
    while not member.is_up:
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        try:
            await cluster.client(member.node_id).call(ApiKey.FIND_COORDINATOR, 4, asked)
        except (ConnectionError, TimeoutError):
            await asyncio.sleep(0.001)
        else:
            early += not member.is_up
    return early


@pytest.mark.parametrize("is_asked", [False, True], ids=["", "asked while it joins"])
def test_a_marker_that_a_power_cut_took_is_written_again_as_the_coordinator_elsewhere_recorded(
    is_asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With flush=os: the coordinator on another broker knows the transaction as complete."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, flush="os")
        async with producer(simulation, "t") as sending:
            coordinator = coordinator_of(cluster, "t")
            dying = next(member for node_id, member in cluster.brokers.items() if node_id != coordinator)
            async with sending.transaction():
                for index in range(PARTITIONS):
                    await sending.send(TOPIC, b"kept", partition=index)
                dying.broker.node.logs.checkpoint()
                await asyncio.sleep(2)
            await asyncio.sleep(0.2)
            dying.host.cut_power()
            dying.start()
            if is_asked:
                assert await ask_until_up(cluster, dying) > 0
            await dying.until_up()
            await asyncio.sleep(5)
        assert await committed(cluster) == everywhere(b"kept")

    run(scenario)
    ended = [line for line in caplog.messages if "does not know as open" in line]
    assert ended, "the power cut must have taken a marker, or this proves nothing"
    assert all("it was committed" in line for line in ended)


def test_a_marker_that_a_power_cut_took_is_written_again_though_others_of_its_transaction_are_still_owed() -> None:
    """With flush=os. The coordinator goes on with the markers that it owes, and takes this one for written: its
    transaction is complete only when the broker of the others is back."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, flush="os")
        async with producer(simulation, "t") as sending:
            coordinator = coordinator_of(cluster, "t")
            dying, away = (member for node_id, member in cluster.brokers.items() if node_id != coordinator)
            sending.begin()
            for index in range(PARTITIONS):
                await sending.send(TOPIC, b"kept", partition=index)
            await sending.flush()
            dying.broker.node.logs.checkpoint()
            await asyncio.sleep(2)
            away.host.kill()
            ending = asyncio.ensure_future(sending.commit())
            await asyncio.sleep(0.5)
            assert open_on(dying) == 0
            dying.host.cut_power()
            dying.start()
            await dying.until_up()
            assert open_on(dying) > 0, "the power cut must have taken a marker, or this proves nothing"
            await asyncio.sleep(5)
            away.start()
            await away.until_up()
            await ending
            await asyncio.sleep(15)
        assert await committed(cluster) == everywhere(b"kept")

    run(scenario)


def open_on(member: ServedMember) -> int:
    """How many transactions are open on its partitions of the topic."""
    led = (partition for partition in member.broker.node.partitions if partition.topic_partition.topic == TOPIC)
    return sum(len(partition.log.producers.open_transactions) for partition in led)


def test_every_membership_leads_under_new_epochs() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        member = cluster.brokers[2]
        before, broker_epoch = epochs(cluster), member.broker.node.image.brokers[2].epoch
        member.host.kill()
        member.start()
        await member.until_up()
        await asyncio.sleep(1)
        after = epochs(cluster)
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            assert new == old + (cluster.led_by(TOPIC, index) == 2), f"partition {index}"
        assert cluster.brokers[1].broker.node.image.brokers[2].epoch > broker_epoch
        terms = {partition.leader_epoch for partition in member.broker.node.partitions}
        assert terms == {1}, "it leads under the epochs of its commit"

    run(scenario)


def test_a_broker_whose_session_expired_leads_nothing_until_it_has_joined_again() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        member = cluster.brokers[2]
        broker_epoch = member.broker.node.image.brokers[2].epoch
        for server in cluster.servers:
            simulation.network.partition(member.name, server.name)
        await asyncio.sleep(EXPIRY_S)
        assert 2 not in cluster.brokers[1].broker.node.image.brokers
        assert len(member.broker.node.partitions) == 2, "suspended: it serves on"
        answer = await cluster.client(1).call(
            ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        )
        leaderless = [one for one in answer.topics[0].partitions if one.error_code]
        assert {one.error_code for one in leaderless} == {ErrorCode.LEADER_NOT_AVAILABLE}
        assert len(leaderless) == 2
        led: list[int] = []
        member.broker.node.cluster.watch(lambda *_: led.append(len(member.broker.node.partitions)))
        simulation.network.heal()
        await asyncio.sleep(EXPIRY_S)
        assert 0 in led, "between the news of its expiry and its registration it led nothing"
        assert len(member.broker.node.partitions) == 2
        assert {partition.leader_epoch for partition in member.broker.node.partitions} == {1}
        assert cluster.brokers[1].broker.node.image.brokers[2].epoch > broker_epoch

    run(scenario)


def test_the_chores_go_to_another_broker_when_the_controller_is_gone() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        controller = cluster.brokers[1].broker.node.image.controller_id
        assert controller is not None
        cluster.brokers[controller].host.kill()
        await asyncio.sleep(EXPIRY_S)
        left = [member for node_id, member in cluster.brokers.items() if node_id != controller]
        seen = {member.broker.node.image.controller_id for member in left}
        assert seen in [{member.node_id} for member in left]

    run(scenario)


def test_a_broker_whose_session_is_lost_while_it_joins_joins_with_the_next() -> None:
    """The registration is carried out, its answer is lost, and it has expired by the time that the broker can ask."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        joining, network = cluster.brokers[3], simulation.network
        zookeeper = [server.name for server in cluster.servers]
        joining.host.kill()
        await asyncio.sleep(EXPIRY_S)

        def registered(transaction: Transaction) -> None:
            if any(path == broker_path(3) and node is not None for path, node in transaction.changes):
                cluster.ensemble.agreed.remove(registered)
                network.partition(joining.name, *zookeeper)

        cluster.ensemble.agreed.append(registered)
        joining.start()
        await asyncio.sleep(EXPIRY_S)
        assert 3 not in cluster.image.brokers
        network.heal()
        await joining.until_up()
        await asyncio.sleep(1)
        assert cluster.image.brokers[3].epoch == joining.broker.node.image.brokers[3].epoch
        assert len(joining.broker.node.partitions) == 2

    run(scenario)


def test_a_stranger_with_the_same_node_id_is_refused_by_name() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        stranger = cluster.stranger(node_id=2)
        with pytest.raises(StorageError, match=r"node.id 2 is taken: broker-2:9092"):
            await stranger.host.start(stranger.serve())
        assert len(cluster.brokers[2].broker.node.partitions) == 2

    run(scenario)


def test_internal_topics_wait_for_as_many_brokers_as_their_replication_factor() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = ServedCluster(simulation, **REPLICATED)
        for server in cluster.servers:
            await server.start()
        find = FindCoordinatorRequest(key="t", key_type=1)
        for node_id, expected in (
            (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (3, ErrorCode.NONE),
        ):
            cluster.brokers[node_id].start()
            await cluster.brokers[node_id].until_up()
            await asyncio.sleep(1)
            answer = await cluster.client(1).call(ApiKey.FIND_COORDINATOR, 3, find)
            assert answer.error_code == expected, node_id
        leaders = [state.leader for state in cluster.image.topics[TRANSACTION_STATE_TOPIC].partitions]
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]

    run(scenario)


def test_a_replication_factor_above_the_number_of_brokers_is_refused() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        wanted = CreatableTopic(name="copied", num_partitions=1, replication_factor=4)
        answer = await cluster.client(1).call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[wanted]))
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 3 broker(s)" in answer.topics[0].error_message

    run(scenario)


def test_a_change_that_zookeeper_would_not_take_at_once_is_made_in_several_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ZooKeeperStore, "commit_bytes_max", 5_000)

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        commits: list[int] = []
        cluster.brokers[2].broker.node.cluster.watch(lambda *_: commits.append(1))
        names = [f"topic-{number}" for number in range(60)]
        wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        taken = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        client = cluster.client(2)
        request = CreateTopicsRequest(topics=[*wanted, taken])
        answer = await client.call(ApiKey.CREATE_TOPICS, 5, request)
        codes = {topic.name: topic.error_code for topic in answer.topics}
        assert codes.pop(TOPIC) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert codes == dict.fromkeys(names, ErrorCode.NONE)
        assert len(commits) == 2
        await asyncio.sleep(5)
        assert all(name in cluster.brokers[3].broker.node.image.topics for name in names)
        deleted = await client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[*names, "unknown"]))
        codes = {topic.name: topic.error_code for topic in deleted.responses}
        assert codes.pop("unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == dict.fromkeys(names, ErrorCode.NONE)

    run(scenario)


@pytest.mark.parametrize("way", ["killed", "stopped", "disk lost", "disk fails", "lags"])
def test_what_becomes_of_a_broker_is_committed_in_parts_where_its_topics_are_many(
    way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Elections, raised epochs, resignations and changes of in-sync sets: each names all topics concerned. What is few
    partitions may be many bytes, by names and settings."""
    monkeypatch.setattr(ZooKeeperStore, "commit_bytes_max", 10_000)
    monkeypatch.setattr(store_module, "REQUEST_BYTES_MAX", 20_000)
    monkeypatch.setattr(sequence, "HISTORY_PATHS_MAX", 20)
    names = [f"{number:0200}" for number in range(240)]

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, replica_lag_time_max_ms="3000", **REPLICATED)
        wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=3) for name in names]
        made = await cluster.client(2).call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=wanted))
        assert {topic.error_code for topic in made.topics} == {ErrorCode.NONE}
        await asyncio.sleep(5)
        member = cluster.brokers[1]

        def states() -> list[PartitionState]:
            tree = cluster.ensemble.tree
            return [paths.decode_topic(n, tree.nodes[paths.topic_path(n)].data).partitions[0] for n in names]

        assert all(len(state.isr) == 3 for state in states())
        match way:
            case "killed" | "disk lost":
                member.host.kill()
            case "stopped":
                await member.host.start(member.broker.stop())
                member.host.kill()
            case "disk fails":
                member.host.disk.fail(DiskFault(Operation.SYNC, times=None))
            case "lags":
                others = [other.name for other in cluster.brokers.values() if other is not member]
                simulation.network.partition(member.name, *others)
        async with producer(simulation, None) as sending:
            # What one broker alone has in sync is refused.
            await asyncio.gather(
                *(sending.send(name, b"record", partition=0) for name in names), return_exceptions=True
            )
        await asyncio.sleep(EXPIRY_S)
        if way == "lags":
            assert all((state.leader == 1) == (1 in state.isr) and len(state.isr) < 3 for state in states())
        else:
            assert all(1 not in state.isr and state.leader != 1 for state in states())
        if way == "disk lost":
            member.host.disk.kill()
            member.host.disk.repair()
            member.accept_loss = True
            member.host.disk.remove_folder("/data")
            member.host.disk.sync_directory("/")
        simulation.network.heal()
        if way == "disk fails":
            return
        if way != "lags":
            member.start()
            await member.until_up()
        await asyncio.sleep(EXPIRY_S)
        assert all(len(state.isr) == 3 for state in states())

    run(scenario)
    assert not [line for line in caplog.messages if "bytes; ZooKeeper takes" in line]


@pytest.mark.parametrize("way", ["created", "partitions", "settings"])
def test_no_topic_becomes_so_large_that_its_leaders_could_not_be_replaced(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The elections of all other topics would wait for it as well, and a broker that leads it could not join again."""
    monkeypatch.setattr(ZooKeeperStore, "commit_bytes_max", 10_000)
    monkeypatch.setattr(store_module, "REQUEST_BYTES_MAX", 20_000)
    monkeypatch.setattr(sequence, "HISTORY_BYTES_MAX", 3_000)

    async def scenario(simulation: Simulation) -> None:
        cluster = ServedCluster(simulation, **REPLICATED)
        await cluster.start()
        client = cluster.client(2)
        count = 780 if way == "created" else 1
        topic = CreatableTopic(name="large", num_partitions=count, replication_factor=3)
        made = await client.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic]))
        codes = [made.topics[0].error_code]
        if way == "partitions":
            grown = CreatePartitionsTopic(name="large", count=780, assignments=None)
            answer = await client.call(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[grown]))
            codes.append(answer.results[0].error_code)
        if way == "settings":
            text = ",".join(f"{number}:1" for number in range(2800))
            config = AlterableConfig(name="leader.replication.throttled.replicas", config_operation=0, value=text)
            resource = AlterConfigsResource(resource_type=2, resource_name="large", configs=[config])
            altered = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            answer = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, altered)
            codes.append(answer.responses[0].error_code)
        await create_topic(client, "small", 3, replicas=3)
        for number in range(50):
            await create_topic(client, f"{number:0100}", 1, replicas=3)
        await asyncio.sleep(1)
        cluster.brokers[1].host.kill()
        await asyncio.sleep(EXPIRY_S)
        assert all(cluster.led_by_store("small", index) != 1 for index in range(3))
        assert codes == [*[ErrorCode.NONE] * (len(codes) - 1), ErrorCode.POLICY_VIOLATION]
        cluster.brokers[1].start()
        await cluster.brokers[1].until_up()

    run(scenario)


def test_what_brokers_ask_each_other_is_not_answered_to_clients() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        answer = await cluster.client(1).call(ApiKey.ADD_PARTITIONS_TO_TXN, 5, AddPartitionsToTxnRequest())
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(scenario)


@pytest.mark.parametrize("transaction_version", ["1", "2"])
def test_the_cluster_agrees_on_its_features_once(transaction_version: str) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation, transaction_version=transaction_version)
        member = cluster.brokers[3]
        member.host.kill()
        member.settings = {**member.settings, "transaction.version": "0"}
        member.start()
        await member.until_up()
        assert member.broker.node.features.finalized["transaction.version"] == int(transaction_version)

    run(scenario)


def test_an_empty_directory_is_refused_where_partitions_should_be() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        cluster.brokers[2].host.kill()
        await asyncio.sleep(EXPIRY_S)
        replaced = cluster.stranger(node_id=2)
        for _ in range(2):
            with pytest.raises(StorageError, match=r"/data is empty, and 2 partitions of node 2 .* --accept-loss"):
                await replaced.host.start(replaced.serve())
        replaced.accept_loss = True
        replaced.start()
        await replaced.until_up()
        assert len(replaced.broker.node.partitions) == 2
        replaced.host.kill()
        replaced.accept_loss = False
        replaced.start()
        await replaced.until_up()

    run(scenario)


async def restarted_as(member: ServedMember, properties: MetaProperties) -> None:
    async def serve() -> None:
        write_meta_properties(member.host.disk, "/data/meta.properties", properties)
        await member.serve()

    member.host.kill()
    await member.host.start(serve())


def test_a_data_directory_of_another_cluster_is_refused() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        member = cluster.brokers[3]
        foreign = MetaProperties("a-cluster-far-away", 3, directory_id="somewhere")
        with pytest.raises(StorageError, match=r"/data belongs to cluster a-cluster-far-away"):
            await restarted_as(member, foreign)

    run(scenario)


def test_a_directory_of_a_cluster_of_one_is_refused() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        member = cluster.brokers[3]
        own = MetaProperties(cluster.brokers[1].broker.cluster_id, 3)
        write_file(member.host.disk, "/data/metadata", b"of its own", sync=True)
        with pytest.raises(StorageError, match=r"/data is the directory of a cluster of one node"):
            await restarted_as(member, own)

    run(scenario)


def test_an_identity_without_the_id_of_its_directory_is_refused_as_damaged() -> None:
    """A flipped bit in that name must not be answered with the advice to take an empty directory."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await started(simulation)
        member = cluster.brokers[3]
        damaged = MetaProperties(cluster.brokers[1].broker.cluster_id, 3)
        with pytest.raises(StorageError, match=r"/data/meta\.properties .* is damaged\. Move it away"):
            await restarted_as(member, damaged)

    run(scenario)


@pytest.mark.parametrize(("name", "level"), [("transaction.version", 9), ("share.version", 1)])
def test_a_broker_that_cannot_do_what_the_cluster_agreed_on_does_not_join(name: str, level: int) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = ServedCluster(simulation)
        for server in cluster.servers:
            await server.start()
        session = ModelSession(simulation.host("newer").network, [server.name for server in cluster.servers])
        await session.start()
        store = await ZooKeeperStore.open(session, author="9", incarnation="a", ephemeral_folders=("/brokers", "/"))
        await compare_and_set(store, "/features", b'{"%s":%d}' % (name.encode(), level), None)
        member = cluster.brokers[1]
        with pytest.raises(StorageError, match=f"the cluster has agreed on {name}={level}, and this broker"):
            await member.host.start(member.serve())
        await asyncio.sleep(EXPIRY_S)
        await store.refresh()
        assert await store.children("/brokers") == []

    run(scenario)
