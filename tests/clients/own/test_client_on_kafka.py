"""Our own client on Apache Kafka: 4.3 with transactions V2, 3.9 with V1. Seen by others through librdkafka."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from semel import Consumer, GroupMetadata, OffsetAndMetadata, Producer, blocking
from semel.errors import AbortableError, FatalError, KafkaError, ProducerFenced
from tests.clients.waiting import run
from tools.brokers import apache_kafka
from tools.kafka_jars import KAFKA_3, KAFKA_4
from tools.patience import PATIENCE_S
from tools.server import Server, running

pytestmark = pytest.mark.kafka

VERSIONS = {KAFKA_4: 2, KAFKA_3: 1}
CLUSTERS = [
    pytest.param(version, id=f"kafka-{version}", marks=pytest.mark.needs(f"kafka-{version}")) for version in VERSIONS
]
PARTITIONS = 4

_names = itertools.count()


@pytest.fixture(scope="module", params=CLUSTERS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    server = apache_kafka(tmp_path_factory.mktemp("kafka"), version=request.param, settings=settings, heap="512m")
    with running(server):
        yield server


@pytest.fixture
def transaction_version(kafka: Server) -> int:
    return next(number for version, number in VERSIONS.items() if version in kafka.name)


@pytest.fixture
def topic(kafka: Server) -> str:
    name = f"topic-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)])[name].result(PATIENCE_S)
    return name


@pytest.fixture
def producer(kafka: Server) -> Callable[..., Producer]:
    def make(**settings: Any) -> Producer:
        return Producer(bootstrap_servers=kafka.bootstrap_servers, **settings)

    return make


async def read(kafka: Server, topic: str, isolation_level: str = "read_committed") -> list[bytes | None]:
    """Everything up to where the readers of this isolation level can read, partition by partition."""
    async with Consumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", isolation_level=isolation_level
    ) as consumer:
        partitions = [(topic, index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        records = []
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            records += await consumer.poll(200)
    return [record.value for record in sorted(records, key=lambda record: (record.partition, record.offset))]


def seen_by_librdkafka(kafka: Server, topic: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "seen", "isolation.level": "read_committed"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[bytes | None] = []
    for _ in range(100):
        found += [message.value() for message in consumer.consume(100, timeout=0.3) if message.error() is None]
        if len(found) >= count:
            break
    consumer.close()
    return sorted(found)


def committed(kafka: Server, group: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=PATIENCE_S)
    consumer.close()
    offset: int = found.offset
    return offset


NOTHING = confluent_kafka.OFFSET_INVALID


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_idempotent_records_of_every_codec(
    kafka: Server, topic: str, producer: Callable[..., Producer], codec: str
) -> None:
    async def scenario() -> None:
        values = [b"%d " % number * 20 for number in range(500)]
        async with producer(compression_type=codec) as own:
            await asyncio.gather(*[own.send(topic, value, partition=0) for value in values])
        assert await read(kafka, topic) == values
        assert seen_by_librdkafka(kafka, topic, 500) == sorted(values)

    run(scenario())


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(
    kafka: Server, topic: str, producer: Callable[..., Producer], transaction_version: int
) -> None:
    """Scenarios 39 and 41."""

    async def scenario() -> None:
        async with producer(transactional_id=topic) as own:
            assert own.identity.transaction_version == transaction_version
            async with own.transaction():
                for partition in range(PARTITIONS):
                    own.send(topic, b"committed-%d" % partition, partition=partition)

            async def fail() -> None:
                async with own.transaction():
                    own.send(topic, b"aborted", partition=0)
                    await own.flush()
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            async with own.transaction():
                own.send(topic, b"again", partition=0)
            own.begin()
            await own.send(topic, b"open", partition=1)
            expected = [b"committed-0", b"again", b"committed-1", b"committed-2", b"committed-3"]
            assert await read(kafka, topic) == expected
            assert seen_by_librdkafka(kafka, topic, 5) == sorted(expected)
            everything = await read(kafka, topic, "read_uncommitted")
            assert sorted(everything) == sorted([*expected, b"aborted", b"open"])

    run(scenario())


def test_every_transaction_has_an_epoch_of_its_own_in_v2_only(
    topic: str, producer: Callable[..., Producer], transaction_version: int
) -> None:
    async def scenario() -> None:
        async with producer(transactional_id=topic) as own:
            before = own.identity.producer_epoch
            for number in range(20):
                async with own.transaction():
                    own.send(topic, b"%d" % number, partition=number % PARTITIONS)
            gained = own.identity.producer_epoch - before
            assert gained == (20 if transaction_version == 2 else 0)

    run(scenario())


def test_a_second_instance_fences_the_first(kafka: Server, topic: str, producer: Callable[..., Producer]) -> None:
    """Scenario 16."""

    async def scenario() -> None:
        first = producer(transactional_id=topic)
        await first.init()
        first.begin()
        await first.send(topic, b"zombie", partition=0)
        async with producer(transactional_id=topic) as second:
            with pytest.raises(KafkaError) as refused:
                await first.commit()
            assert isinstance(refused.value, (ProducerFenced, AbortableError))
            with pytest.raises(FatalError):
                await first.abort()
            async with second.transaction():
                second.send(topic, b"heir", partition=0)
        await first.close()
        assert await read(kafka, topic) == [b"heir"]

    run(scenario())


def test_a_transaction_that_takes_too_long_is_not_committed(
    kafka: Server, topic: str, producer: Callable[..., Producer]
) -> None:
    """Scenario 26."""

    async def scenario() -> None:
        async with producer(transactional_id=topic, transaction_timeout_ms=500) as own:
            own.begin()
            await own.send(topic, b"late", partition=0)
            async with Consumer(
                bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed"
            ) as consumer:
                while (await consumer.end_offsets([(topic, 0)]))[topic, 0] == 0:
                    await asyncio.sleep(0.1)
            with pytest.raises(KafkaError):
                await own.commit()
        assert await read(kafka, topic) == []

    run(scenario())


def test_a_timeout_beyond_the_broker_s_limit_is_refused(topic: str, producer: Callable[..., Producer]) -> None:
    """Scenario 29."""

    async def scenario() -> None:
        own = producer(transactional_id=topic, transaction_timeout_ms=3_600_000)
        with pytest.raises(FatalError, match="INVALID_TRANSACTION_TIMEOUT"):
            await own.init()
        await own.close()

    run(scenario())


def test_offsets_are_committed_with_the_transaction_and_dropped_with_it(
    kafka: Server, topic: str, producer: Callable[..., Producer]
) -> None:
    """Scenario 51."""

    async def scenario() -> None:
        async with producer(transactional_id=topic) as own:
            own.begin()
            await own.send_offsets({(topic, 0): 3}, f"group-{topic}")
            await own.abort()
            assert await asyncio.to_thread(committed, kafka, f"group-{topic}", topic) == NOTHING
            async with own.transaction():
                own.send(topic, b"output", partition=1)
                await own.send_offsets({(topic, 0): OffsetAndMetadata(7, "done")}, f"group-{topic}")
            assert await asyncio.to_thread(committed, kafka, f"group-{topic}", topic) == 7

    run(scenario())


def test_offsets_of_a_member_that_is_none_are_refused(topic: str, producer: Callable[..., Producer]) -> None:
    """Scenario 53."""

    async def scenario() -> None:
        async with producer(transactional_id=topic) as own:
            own.begin()
            zombie = GroupMetadata(f"group-{topic}", 5, "nobody")
            with pytest.raises(AbortableError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
                await own.send_offsets({(topic, 0): 3}, zombie)
            await own.abort()
            async with own.transaction():
                own.send(topic, b"fine", partition=0)

    run(scenario())


def test_attached_producers_write_within_the_owner_s_transaction(
    kafka: Server, topic: str, producer: Callable[..., Producer]
) -> None:
    async def scenario() -> None:
        async with producer(transactional_id=topic) as owner:
            workers = [producer(transactional_id=topic) for _ in range(PARTITIONS)]
            for round_number in range(3):
                if owner.identity.transaction_version == 1:
                    await owner.bump_epoch()
                owner.begin()
                for partition, worker in enumerate(workers):
                    worker.attach(*owner.identity)
                    worker.send(topic, b"%d-%d" % (round_number, partition), partition=partition)
                for worker in workers:
                    await worker.flush()
                await owner.commit()
            if owner.identity.transaction_version == 1:
                await owner.bump_epoch()
            # Until the markers are there, a late record could still slip in; Kafka writes them after it has answered.
            expected = [b"%d-%d" % (number, partition) for partition in range(PARTITIONS) for number in range(3)]
            while await read(kafka, topic) != expected:
                await asyncio.sleep(0.05)
            workers[0].send(topic, b"late", partition=0)
            with pytest.raises(AbortableError):
                await workers[0].flush()
            for worker in workers:
                await worker.close()
        assert await read(kafka, topic) == expected

    run(scenario())


def test_a_batch_that_fails_makes_commit_raise_and_the_producer_goes_on(
    kafka: Server, topic: str, producer: Callable[..., Producer]
) -> None:
    async def scenario() -> None:
        async with producer(transactional_id=topic, max_request_size=4_000_000) as own:
            own.begin()
            own.send(topic, b"good", partition=0)
            own.send(topic, bytes(2_000_000), partition=0)
            with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
                await own.commit()
            await own.abort()
            async with own.transaction():
                own.send(topic, b"after", partition=0)
        assert await read(kafka, topic) == [b"after"]

    run(scenario())


def test_fetches_are_incremental_and_the_lag_comes_to_zero_behind_transactions(
    kafka: Server, topic: str, producer: Callable[..., Producer]
) -> None:
    async def scenario() -> None:
        partitions = [(topic, index) for index in range(PARTITIONS)]
        async with (
            producer(transactional_id=f"lag-{topic}") as own,
            Consumer(
                bootstrap_servers=kafka.bootstrap_servers,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                fetch_max_wait_ms=20,
                client_rack="nowhere",
            ) as consumer,
        ):
            consumer.assign(partitions)
            for round_ in range(3):
                consumer.pause(partitions[round_])
                async with own.transaction():
                    for _, index in partitions:
                        own.send(topic, b"%d" % round_, partition=index)
                consumer.resume(partitions[round_])
            seen: list[bytes | None] = []
            while any([await consumer.position(partition) < 6 for partition in partitions]):
                seen += [record.value for record in await consumer.poll(100)]
            assert sorted(seen) == [b"%d" % round_ for round_ in range(3) for _ in partitions]
            assert [await consumer.lag(partition) for partition in partitions] == [0] * PARTITIONS
            assert [session._epoch > 1 for session in consumer._session.machine._fetcher._sessions.values()] == [True]

    run(scenario())


def test_the_blocking_client(kafka: Server, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic) as own:
        for number in range(5):
            with own.transaction():
                own.send(topic, b"%d" % number, partition=0)

        def fail() -> None:
            with own.transaction():
                own.send(topic, b"aborted", partition=0)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
    with blocking.Consumer(**settings, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        values = [record.value for record in itertools.islice(consumer, 5)]
        assert values == [b"%d" % number for number in range(5)]
        assert consumer.poll(300) == []
