"""Our own admin client on Semel, and in ``make test-kafka`` on Apache Kafka 4.3 and 3.9: the same tests on all."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from semel import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition, blocking
from semel.admin import (
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ListedOffset,
    NewTopic,
    OffsetSpec,
    TransactionListing,
)
from semel.broker.requests.routes import SERVED
from semel.client.offsets import PartitionLike
from semel.errors import AbortableError, ErrorCode, KafkaError, RetriableError, StateError, UnsupportedVersion
from semel.testing import Broker
from semel.wire.apis import ApiKey
from tests.broker.raw_client import RawClient
from tests.broker.transactional_client import Transactional
from tests.clients.waiting import eventually, eventually_async
from tools.brokers import apache_kafka
from tools.kafka_jars import KAFKA_3, KAFKA_4
from tools.patience import PATIENCE_MS, PATIENCE_S
from tools.server import running

BROKERS = [
    pytest.param("semel", id="semel"),
    *(
        pytest.param(version, id=f"kafka-{version}", marks=[pytest.mark.kafka, pytest.mark.needs(f"kafka-{version}")])
        for version in (KAFKA_4, KAFKA_3)
    ),
]

_names = itertools.count()


@dataclass(frozen=True)
class Cluster:
    kind: str
    bootstrap_servers: str

    def needs(self, *api_keys: ApiKey) -> None:
        if self.kind == "semel" and not set(api_keys) <= set(SERVED):
            pytest.skip(f"Semel's broker does not serve {', '.join(key.name for key in api_keys)}")


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if request.param == "semel":
        with Broker(num_partitions=1, group_initial_rebalance_delay_ms=0) as broker:
            yield Cluster("semel", broker.bootstrap_servers)
        return
    folder: Path = tmp_path_factory.mktemp("kafka")
    # So that a transaction can be made to hang.
    settings = {"transaction.partition.verification.enable": "false"}
    with running(apache_kafka(folder, version=request.param, settings=settings, heap="512m")) as server:
        yield Cluster(request.param, server.bootstrap_servers)


@pytest.fixture
def name() -> str:
    return f"own-admin-{next(_names)}"


Scenario = Callable[[Admin], Coroutine[Any, Any, None]]


def run(cluster: Cluster, scenario: Scenario) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(PATIENCE_S), Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await scenario(admin)

    asyncio.run(within_time())


async def write(cluster: Cluster, topic: str, *values: bytes) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            await producer.send(topic, value, partition=0, timestamp=1_000 + int(value))


@asynccontextmanager
async def open_transaction(cluster: Cluster, topic: str) -> AsyncIterator[Producer]:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic) as producer:
        producer.begin()
        await producer.send(topic, b"1", partition=0)
        yield producer


# Topics


def test_a_topic_is_created_described_listed_and_deleted(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        created = await admin.topics.create(name, partitions=3, replication_factor=1, configs={"retention.ms": 60_000})
        assert (created.partitions, created.replication_factor) == (3, 1)
        assert created.configs["retention.ms"] == "60000"

        described = await admin.topics.describe(name)
        assert described.topic_id == created.topic_id
        assert [partition.partition for partition in described.partitions] == [0, 1, 2]
        (broker,) = (await admin.cluster.describe()).brokers
        for partition in described.partitions:
            assert partition.leader == broker.broker_id
            assert partition.replicas == partition.in_sync == (broker.broker_id,)

        listed = (await admin.topics.list())[name]
        assert (listed.topic_id, listed.partitions, listed.is_internal) == (created.topic_id, 3, False)

        await admin.topics.delete(name)

        async def is_listed() -> bool:
            return name in await admin.topics.list()

        await eventually_async(False, is_listed)  # Brokers hear of it from the controller.
        with pytest.raises(RetriableError, match=f"Metadata of topic '{name}'") as gone:
            await admin.topics.describe(name)
        assert gone.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(cluster, scenario)


def test_each_of_many_topics_has_its_own_outcome(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        wanted = [NewTopic(name), NewTopic(f"{name}-b", 2), NewTopic("not/a/name"), NewTopic(f"{name}-c", 0)]
        results = await admin.topics.create_many(wanted)
        assert list(results.succeeded) == [f"{name}-b"]
        assert {key: error.code for key, error in results.failed.items()} == {
            name: ErrorCode.TOPIC_ALREADY_EXISTS,
            "not/a/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name}-c": ErrorCode.INVALID_PARTITIONS,
        }
        with pytest.raises(AbortableError, match=f"TOPIC_ALREADY_EXISTS: CreateTopics of topic '{name}'"):
            results.all()
        deleted = await admin.topics.delete_many([name, f"{name}-b", "nobody"])
        assert list(deleted.succeeded) == [name, f"{name}-b"]
        assert deleted.failed["nobody"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(cluster, scenario)


def test_what_is_only_validated_is_not_done(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, partitions=2, validate_only=True)
        assert name not in await admin.topics.list()
        await admin.topics.create(name, partitions=2)
        await admin.topics.create_partitions(name, 5, validate_only=True)
        await admin.configs.alter(ConfigResource.topic(name), {"retention.ms": 1}, validate_only=True)
        assert len((await admin.topics.describe(name)).partitions) == 2
        entry = (await admin.configs.describe(ConfigResource.topic(name)))["retention.ms"]
        assert entry.source is not ConfigSource.TOPIC

    run(cluster, scenario)


def test_partitions_are_added_and_never_taken_away(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, partitions=1)
        await admin.topics.create_partitions(name, 4)

        async def partitions() -> int:
            return len((await admin.topics.describe(name)).partitions)

        await eventually_async(4, partitions)
        for total in (4, 2):
            with pytest.raises(AbortableError) as refused:
                await admin.topics.create_partitions(name, total)
            assert refused.value.code is ErrorCode.INVALID_PARTITIONS

    run(cluster, scenario)


# Configs


def test_single_settings_are_changed_and_the_others_left_alone(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, configs={"retention.ms": 60_000, "max.message.bytes": 5_000})
        resource = ConfigResource.topic(name)
        change = {"retention.ms": 90_000, "max.message.bytes": None, "preallocate": True}
        await admin.configs.alter(resource, change, append={"cleanup.policy": "compact"})

        async def entries() -> dict[str, tuple[str | None, bool]]:
            found = await admin.configs.describe(resource)
            wanted = ("retention.ms", "max.message.bytes", "preallocate", "cleanup.policy")
            return {key: (found[key].value, found[key].source is ConfigSource.TOPIC) for key in wanted}

        expected = {
            "retention.ms": ("90000", True),
            "max.message.bytes": ("1048588", False),
            "preallocate": ("true", True),
            "cleanup.policy": ("delete,compact", True),
        }
        await eventually_async(expected, entries)

    run(cluster, scenario)


def test_a_setting_that_is_none_is_refused_and_the_other_resources_are_changed(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        results = await admin.configs.alter_many(
            {
                ConfigResource.topic(name): ConfigChange({"retention.ms": 7_000}),
                ConfigResource.topic("nobody"): ConfigChange({"retention.ms": 7_000}),
            }
        )
        assert list(results.succeeded) == [ConfigResource.topic(name)]
        assert results.failed[ConfigResource.topic("nobody")].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(AbortableError, match="IncrementalAlterConfigs of topic") as refused:
            await admin.configs.alter(ConfigResource.topic(name), {"retention.ms": "soon"})
        assert refused.value.code is ErrorCode.INVALID_CONFIG

    run(cluster, scenario)


def test_a_broker_s_settings_are_asked_of_itself(cluster: Cluster) -> None:
    async def scenario(admin: Admin) -> None:
        (broker,) = (await admin.cluster.describe()).brokers
        entries = await admin.configs.describe(ConfigResource.broker(broker.broker_id), include_documentation=True)
        assert entries["transaction.max.timeout.ms"].value == "900000"
        assert entries["transaction.max.timeout.ms"].documentation
        with pytest.raises(RetriableError, match="there is no broker 77 in the cluster, only"):
            await admin.configs.describe(ConfigResource.broker(77))

    run(cluster, scenario)


# Partitions


def test_offsets_by_time_and_records_deleted(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, partitions=2)
        await write(cluster, name, b"1", b"5", b"3")
        partition = TopicPartition(name, 0)

        async def offset(time: int) -> int | None:
            return (await admin.partitions.list_offsets({partition: time}))[partition].offset

        assert [await offset(time) for time in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP)] == [
            0,
            3,
            1,
        ]
        assert [await offset(time) for time in (0, 1_002, 1_005, 1_006)] == [0, 1, 1, None]

        deleted = await admin.partitions.delete_records({(name, 0): 2, (name, 1): 9})
        assert deleted[partition] == 2
        assert deleted.failed[TopicPartition(name, 1)].code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert await offset(OffsetSpec.EARLIEST) == 2
        assert (await admin.partitions.delete_records({(name, 0): None}))[partition] == 3

    run(cluster, scenario)


def test_partitions_that_do_not_exist_fail_alone_and_say_how_many_there_are(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, partitions=2)
        times = {(name, 0): OffsetSpec.LATEST, (name, 2): OffsetSpec.LATEST, ("nobody", 0): OffsetSpec.LATEST}
        results = await admin.partitions.list_offsets(times)
        assert results[TopicPartition(name, 0)] == ListedOffset(0, None, results[TopicPartition(name, 0)].leader_epoch)
        assert f"{name} has 2 partitions" in str(results.failed[TopicPartition(name, 2)])
        assert results.failed[TopicPartition("nobody", 0)].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "nobody" not in await admin.topics.list(), "asking must not create"

    run(cluster, scenario)


# The cluster


def test_the_cluster_its_disks_and_its_features(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        await write(cluster, name, b"1")
        described = await admin.cluster.describe()
        (broker,) = described.brokers
        assert described.cluster_id
        assert f"{broker.host}:{broker.port}" == cluster.bootstrap_servers

        (log_dir,) = (await admin.cluster.log_dirs())[broker.broker_id].values()
        assert log_dir.error is None
        assert log_dir.replicas[TopicPartition(name, 0)].size_bytes > 0
        assert log_dir.size_bytes >= log_dir.replicas[TopicPartition(name, 0)].size_bytes
        (narrowed,) = (await admin.cluster.log_dirs([broker.broker_id], partitions=[(name, 0)]))[1].values()
        assert list(narrowed.replicas) == [(name, 0)]

        features = await admin.cluster.features()
        assert features.finalized.get("transaction.version", 0) == (0 if cluster.kind == KAFKA_3 else 2)

    run(cluster, scenario)


# Transactions


def test_an_open_transaction_is_seen_where_it_is_and_where_it_is_coordinated(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        async with open_transaction(cluster, name) as producer:
            producer_id, epoch, _ = producer.identity
            (state,) = (await admin.partitions.describe_producers([(name, 0)]))[TopicPartition(name, 0)]
            assert (state.producer_id, state.producer_epoch, state.transaction_start_offset) == (producer_id, epoch, 0)

            described = await admin.transactions.describe(name)
            assert (described.state, described.producer_id, described.producer_epoch) == ("Ongoing", producer_id, epoch)
            assert described.partitions == ((name, 0),)
            assert described.timeout_ms == 60_000
            assert described.start_time_ms is not None

            listing = TransactionListing(name, producer_id, "Ongoing", 1)
            assert listing in await admin.transactions.list()
            assert await admin.transactions.list(producer_ids=[producer_id], states=["Ongoing"]) == (listing,)
            assert listing not in await admin.transactions.list(states=["Empty"])
            assert listing not in await admin.transactions.list(running_longer_than_ms=3_600_000)
            # It is old enough if nothing is too young, and it is still none that hangs: its coordinator knows it.
            assert await admin.transactions.find_hanging(topics=[name], max_transaction_timeout_ms=-1) == ()
            await producer.commit()

        async def state_and_partitions() -> tuple[str, tuple[TopicPartition, ...]]:
            described = await admin.transactions.describe(name)
            return described.state, described.partitions

        await eventually_async(("CompleteCommit", ()), state_and_partitions)

    run(cluster, scenario)


def test_transactions_by_a_pattern_of_their_names(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        async with open_transaction(cluster, name) as producer:
            pattern = f"{name[:-2]}.*{name[-2:]}"
            if cluster.kind == KAFKA_3:
                with pytest.raises(UnsupportedVersion, match="versions 0 to 1 of ListTransactions"):
                    await admin.transactions.list(transactional_id_pattern=pattern)
            else:
                (listing,) = await admin.transactions.list(transactional_id_pattern=pattern)
                assert listing.transactional_id == name
                assert await admin.transactions.list(transactional_id_pattern="nobody.*") == ()
            await producer.abort()

    run(cluster, scenario)


def test_what_nobody_knows_is_an_error_of_its_own(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        with pytest.raises(AbortableError, match="DescribeTransactions of transactional id 'nobody'") as refused:
            await admin.transactions.describe("nobody")
        assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        with pytest.raises(AbortableError, match="there is no state Confused"):
            await admin.transactions.list(states=["Confused"])

    run(cluster, scenario)


def test_one_partition_s_transaction_is_aborted_by_its_start_offset(cluster: Cluster, name: str) -> None:
    """What an operator does about a transaction that hangs: its readers go on."""

    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        await write(cluster, name, b"1")
        async with open_transaction(cluster, name):
            partition = TopicPartition(name, 0)

            async def stable() -> int | None:
                times = {partition: OffsetSpec.LATEST}
                return (await admin.partitions.list_offsets(times, isolation_level="read_committed"))[partition].offset

            assert await stable() == 1
            with pytest.raises(AbortableError, match=f"{name}-0 has no open transaction that begins at offset 0"):
                await admin.transactions.abort((name, 0), start_offset=0)
            await admin.transactions.abort((name, 0), start_offset=1)
            await eventually_async(3, stable)
            states = (await admin.partitions.describe_producers([(name, 0)]))[partition]
            assert [state.transaction_start_offset for state in states] == [None, None]
        async with Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([(name, 0)])
            assert [record.value for record in await consumer.poll(PATIENCE_MS)] == [b"1"]

    run(cluster, scenario)


def test_the_log_end_is_told_whatever_is_stable(cluster: Cluster, name: str) -> None:
    """Brokers tell it to the debugging replica, which they do not take for a read_committed reader either."""

    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        partition = TopicPartition(name, 0)
        async with (
            Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name) as producer,
            producer.transaction(),
        ):
            for value in (b"1", b"2"):
                await producer.send(name, value)
            times = {partition: OffsetSpec.LATEST}
            stable = await admin.partitions.list_offsets(times, isolation_level="read_committed")
            ends = await admin.partitions.log_ends([(name, 0), (name, 7)])
        assert stable[partition].offset == 0
        assert ends[partition].offset == 2
        assert list(ends.failed) == [(name, 7)]

    run(cluster, scenario)


def test_a_transaction_that_hangs_is_found_and_ended(cluster: Cluster, name: str) -> None:
    """Scenario 42. Kafka lets one be made where it was told not to verify; Semel cannot be told."""

    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        partition = TopicPartition(name, 0)
        with RawClient(int(cluster.bootstrap_servers.rpartition(":")[2])) as client:
            zombie = Transactional(client, name, is_v2=False)
            zombie.find()
            eventually(ErrorCode.NONE, lambda: zombie.init().error_code)
            # A record that arrives late, after its transaction has ended: the coordinator has forgotten the partition.
            code = zombie.produce(name, b"late").error_code
        if cluster.kind == "semel":
            assert code == ErrorCode.TRANSACTION_ABORTABLE
            assert await admin.transactions.find_hanging(max_transaction_timeout_ms=-1, topics=[name]) == ()
            return
        assert code == ErrorCode.NONE
        assert await admin.transactions.find_hanging(topics=[name]) == (), "it is too young to be called so"
        (found,) = await admin.transactions.find_hanging(max_transaction_timeout_ms=-1, topics=[name])
        assert (found.partition, found.start_offset, found.producer_id) == (partition, 0, zombie.producer_id)
        assert found.transactional_id == name
        assert found in await admin.transactions.find_hanging(max_transaction_timeout_ms=-1)
        await admin.transactions.abort(found.partition, start_offset=found.start_offset)
        await eventually_async(
            (), lambda: admin.transactions.find_hanging(max_transaction_timeout_ms=-1, topics=[name])
        )
        times = {partition: OffsetSpec.LATEST}
        ends = await admin.partitions.list_offsets(times, isolation_level="read_committed")
        assert ends[partition].offset == 2

    run(cluster, scenario)


# Groups


def test_offsets_of_a_group_without_members_are_set_listed_and_deleted(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, partitions=3)
        offsets: dict[PartitionLike, int | OffsetAndMetadata] = {
            (name, 0): 5,
            (name, 1): OffsetAndMetadata(6, "note", 0),
        }
        results = await admin.groups.alter_offsets(name, offsets)
        assert list(results.all()) == [(name, 0), (name, 1)]
        assert await admin.groups.list_offsets(name) == {
            TopicPartition(name, 0): OffsetAndMetadata(5),
            TopicPartition(name, 1): OffsetAndMetadata(6, "note", 0),
        }
        assert list(await admin.groups.list_offsets(name, [(name, 1), (name, 2)])) == [(name, 1)]
        cluster.needs(ApiKey.OFFSET_DELETE)
        deleted = await admin.groups.delete_offsets(name, [(name, 0)])
        assert list(deleted.all()) == [(name, 0)]
        assert list(await admin.groups.list_offsets(name)) == [(name, 1)]

    run(cluster, scenario)


def test_offsets_of_many_groups_are_listed_at_once_each_for_itself(cluster: Cluster, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, partitions=2)
        for number in range(3):
            (await admin.groups.alter_offsets(f"{name}-{number}", {(name, 0): number, (name, 1): 5})).all()
        found = await admin.groups.list_offsets_many([f"{name}-{number}" for number in range(3)])
        assert found.all() == {
            f"{name}-{number}": {
                TopicPartition(name, 0): OffsetAndMetadata(number),
                TopicPartition(name, 1): OffsetAndMetadata(5),
            }
            for number in range(3)
        }
        assert (await admin.groups.list_offsets_many([])).all() == {}

    cluster.needs(ApiKey.OFFSET_FETCH)
    run(cluster, scenario)


def test_offsets_that_an_open_transaction_may_change_are_waited_for(cluster: Cluster, name: str) -> None:
    """Scenario 52."""

    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        async with open_transaction(cluster, name) as producer:
            await producer.send_offsets({(name, 0): 7}, name)
            assert await admin.groups.list_offsets(name) == {}
            waiting = asyncio.create_task(admin.groups.list_offsets(name, [(name, 0)], require_stable=True))

            async def asks() -> bool:
                return repr(admin).endswith(f"waiting for OffsetFetch of group '{name}'>")

            await eventually_async(True, asks)
            await producer.commit()
            assert (await waiting)[TopicPartition(name, 0)].offset == 7

    run(cluster, scenario)


def test_a_group_without_members_is_listed_described_and_deleted(cluster: Cluster, name: str) -> None:
    cluster.needs(ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS)

    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name)
        (await admin.groups.alter_offsets(name, {(name, 0): 5})).all()
        listing = next(group for group in await admin.groups.list() if group.group_id == name)
        assert listing.state == "Empty"
        assert listing.is_simple
        described = await admin.groups.describe(name)
        assert (described.state, described.members) == ("Empty", ())
        results = await admin.groups.delete_many([name, "nobody"])
        assert list(results.succeeded) == [name]
        assert results.failed["nobody"].code is ErrorCode.GROUP_ID_NOT_FOUND
        with pytest.raises(AbortableError, match=f"of group '{name}'") as gone:
            await admin.groups.describe(name)
        assert gone.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    run(cluster, scenario)


def member(cluster: Cluster, group: str, topic: str, protocol: str) -> confluent_kafka.Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "client.id": "somebody",
        "auto.offset.reset": "earliest",
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    return consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_of_either_protocol(cluster: Cluster, name: str, protocol: str) -> None:
    cluster.needs(ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.JOIN_GROUP, ApiKey.OFFSET_DELETE)
    if protocol == "consumer":
        cluster.needs(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
        if cluster.kind == KAFKA_3:
            pytest.skip("Kafka 3.9 has KIP-848 only as a preview, switched off")

    async def scenario(admin: Admin) -> None:
        await admin.topics.create(name, partitions=2)
        consumer = member(cluster, name, name, protocol)
        try:
            while len(consumer.assignment()) != 2:
                await asyncio.to_thread(consumer.poll, 0.1)
            described = await admin.groups.describe(name)
            assert (described.type, described.state, described.protocol_type) == (protocol, "Stable", "consumer")
            (found,) = described.members
            assert found.client_id == "somebody"
            assert found.assignment == ((name, 0), (name, 1))
            assert found.subscribed_topics == (name,)
            if protocol == "consumer":
                assert found.target_assignment == found.assignment

            listed = {group.group_id: group for group in await admin.groups.list(states=["Stable"])}
            assert listed[name].type in (protocol, protocol.capitalize())

            refused = await admin.groups.alter_offsets(name, {(name, 0): 1})
            assert refused.failed[TopicPartition(name, 0)].code is ErrorCode.UNKNOWN_MEMBER_ID
            with pytest.raises(AbortableError, match="the group has members") as not_empty:
                await admin.groups.delete(name)
            assert not_empty.value.code is ErrorCode.NON_EMPTY_GROUP
            kept = await admin.groups.delete_offsets(name, [(name, 0)])
            assert kept.failed[TopicPartition(name, 0)].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        finally:
            await asyncio.to_thread(consumer.close)

    run(cluster, scenario)


# For threads, and after the end


def test_the_blocking_admin_client_serves_many_threads(cluster: Cluster, name: str) -> None:
    with blocking.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        topics = [f"{name}-{number}" for number in range(5)]
        threads = [threading.Thread(target=admin.topics.create, args=(topic,)) for topic in topics]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list(admin.topics.describe_many(topics).all()) == topics
        assert set(topics) <= set(admin.topics.list())
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            admin.topics.create(topics[0])
        assert repr(admin) == f"<blocking Admin {cluster.bootstrap_servers} open>"
    with pytest.raises(StateError, match="the admin client is closed"):
        admin.topics.list()
