"""Our own consumer in groups: on Semel, and the same on Apache Kafka 4.3 and 3.9: so the tests are known to be right.

Each test that takes ``protocol`` runs with the classic protocol, eager and cooperative, and with KIP-848's.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from semel import Consumer, GroupMetadata, OffsetAndMetadata, Producer, TopicPartition, blocking
from semel.errors import AbortableError, FatalError, KafkaError
from tests.clients.waiting import run
from tools.brokers import apache_kafka, semel
from tools.kafka_jars import KAFKA_3, KAFKA_4
from tools.load import create_topic
from tools.patience import PATIENCE_MS, PATIENCE_S
from tools.server import Server, running

PARTITIONS = 6
SETTINGS = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
MODERN_SETTINGS = {"group.consumer.heartbeat.interval.ms": "1000", "group.consumer.min.heartbeat.interval.ms": "500"}
# What a rebalance waits for is short; what a busy machine may be late for is long.
QUICK = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 200, "metadata_max_age_ms": 1_000}

EAGER = {"partition_assignment_strategy": "range", **QUICK}
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky", **QUICK}
MODERN = {"group_protocol": "consumer", "metadata_max_age_ms": 1_000}

_names = itertools.count()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("semel", id="semel"),
        pytest.param(KAFKA_4, id="kafka-4", marks=[pytest.mark.kafka, pytest.mark.needs(f"kafka-{KAFKA_4}")]),
        pytest.param(KAFKA_3, id="kafka-3", marks=[pytest.mark.kafka, pytest.mark.needs(f"kafka-{KAFKA_3}")]),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("broker")
    settings = SETTINGS if request.param == KAFKA_3 else SETTINGS | MODERN_SETTINGS
    if request.param == "semel":
        launched = semel(folder, settings=settings)
    else:
        launched = apache_kafka(folder, version=request.param, settings=settings, heap="512m")
    with running(launched):
        yield launched


@pytest.fixture(params=[EAGER, COOPERATIVE, MODERN], ids=["eager", "cooperative", "consumer"])
def protocol(request: pytest.FixtureRequest, server: Server) -> dict[str, Any]:
    if request.param is MODERN and KAFKA_3 in server.name:
        pytest.skip("Apache Kafka 3.9 has this protocol only as a preview")
    found: dict[str, Any] = request.param
    return found


@pytest.fixture
def topic(server: Server) -> str:
    name = f"topic-{next(_names)}"
    create_topic(server.bootstrap_servers, name, partitions=PARTITIONS)
    return name


@pytest.fixture
def consumer(server: Server, topic: str) -> Callable[..., Consumer]:
    def make(**settings: Any) -> Consumer:
        settings = {"group_id": f"group-{topic}", "auto_offset_reset": "earliest", **settings}
        return Consumer(bootstrap_servers=server.bootstrap_servers, **settings)

    return make


async def fill(server: Server, topic: str, count: int, *, start: int = 0) -> list[bytes]:
    values = [b"%d" % number for number in range(start, start + count)]
    async with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % PARTITIONS)
    return values


class Listener:
    """Keeps the changes of its assignment: ("assigned", partitions) and so on."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, list[int]]] = []

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.changes.append(("assigned", [index for _, index in partitions]))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.changes.append(("revoked", [index for _, index in partitions]))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.changes.append(("lost", [index for _, index in partitions]))

    def named(self, change: str) -> list[int]:
        return sorted(index for what, partitions in self.changes if what == change for index in partitions)


class Reader:
    """Polls a consumer in a task of its own, until it is stopped."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.values: list[bytes | None] = []
        self._stopping = False
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while not self._stopping:
            self.values += [record.value for record in await self.consumer.poll(100)]

    async def stop(self) -> None:
        self._stopping = True
        await self._task

    async def close(self) -> None:
        await self.stop()
        await self.consumer.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def owned(*consumers: Consumer) -> list[int]:
    return sorted(index for consumer in consumers for _, index in consumer.assignment)


def test_members_share_the_partitions_and_take_over_from_who_leaves(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        values = await fill(server, topic, 120)
        listeners = [Listener() for _ in range(3)]
        first, second, third = (consumer(**protocol) for _ in range(3))
        for member, listener in zip((first, second, third), listeners, strict=True):
            member.subscribe([topic], listener=listener)
        readers = [Reader(first)]
        await until(lambda: len(readers[0].values) == 120)
        readers += [Reader(second), Reader(third)]
        everything = list(range(PARTITIONS))
        await until(lambda: owned(first, second, third) == everything and all(r.consumer.assignment for r in readers))
        assert max(len(member.assignment) for member in (first, second, third)) == 2
        values += await fill(server, topic, 120, start=120)
        await until(lambda: sum(len(reader.values) for reader in readers) >= 240)
        await readers[2].close()
        await until(lambda: owned(first, second) == everything)
        values += await fill(server, topic, 60, start=240)
        await until(lambda: sum(len(reader.values) for reader in readers) >= 300)
        for reader in readers[:2]:
            await reader.close()
        assert Counter(value for reader in readers for value in reader.values) == Counter(values), "each of them once"
        assert not any(listener.named("lost") for listener in listeners)
        assert listeners[2].named("revoked") == listeners[2].named("assigned")

    run(scenario())


def test_a_cooperative_rebalance_does_not_take_what_a_member_keeps(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    if protocol is EAGER:
        pytest.skip("an eager member gives everything up")

    async def scenario() -> None:
        listener = Listener()
        first, second = consumer(**protocol), consumer(**protocol)
        first.subscribe([topic], listener=listener)
        second.subscribe([topic])
        readers = [Reader(first)]
        await until(lambda: len(first.assignment) == PARTITIONS)
        readers.append(Reader(second))
        await until(lambda: len(first.assignment) == len(second.assignment) == PARTITIONS // 2)
        for reader in readers:
            await reader.stop()
        assert len(listener.named("revoked")) == PARTITIONS // 2
        assert listener.named("assigned") == list(range(PARTITIONS))
        for reader in readers:
            await reader.close()

    run(scenario())


def test_what_was_committed_is_where_the_next_one_begins(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        await fill(server, topic, 60)
        async with consumer(**protocol, enable_auto_commit=False) as first:
            first.subscribe([topic])
            records: list[Any] = []
            while len(records) < 60:
                records += await first.poll(1_000)
            await first.commit({(topic, 0): 4, (topic, 1): OffsetAndMetadata(7, "a note")})
            await first.commit_async({(topic, 2): 10})
            committed = await first.committed([(topic, index) for index in range(4)])
            assert [entry and (entry.offset, entry.metadata) for entry in committed.values()] == [
                (4, ""),
                (7, "a note"),
                (10, ""),
                None,
            ]
        async with consumer(**protocol, enable_auto_commit=False) as second:
            second.subscribe([topic])
            seen = Counter()  # type: Counter[int]
            while sum(seen.values()) < 6 + 3 + 30:
                seen.update(record.partition for record in await second.poll(1_000))
            assert await second.poll(300) == []
            assert seen == {0: 6, 1: 3, 3: 10, 4: 10, 5: 10}

    run(scenario())


def test_close_commits_what_was_read(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        await fill(server, topic, 60)
        async with consumer(**protocol) as first:
            first.subscribe([topic])
            count = 0
            async for _ in first:
                count += 1
                if count == 25:
                    break
        async with consumer(**protocol) as second:
            second.subscribe([topic])
            rest: list[Any] = []
            while len(rest) < 35:
                rest += await second.poll(1_000)
            assert await second.poll(300) == []
            assert len(rest) == 35

    run(scenario())


def test_seeking_when_partitions_are_assigned(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        await fill(server, topic, 60)
        async with consumer(**protocol) as member:

            class Seeking:
                def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                    for partition in partitions:
                        member.seek(partition, 9)

            member.subscribe([topic], listener=Seeking())
            records: list[Any] = []
            while len(records) < PARTITIONS:
                records += await member.poll(1_000)
            assert {record.offset for record in records} == {9}

    run(scenario())


def test_a_listener_may_commit_when_partitions_are_revoked(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        await fill(server, topic, 60)
        member = consumer(**protocol, enable_auto_commit=False)

        class Committing:
            async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                await member.commit()

        member.subscribe([topic], listener=Committing())
        count = 0
        while count < 60:
            count += len(await member.poll(1_000))
        await member.unsubscribe()
        assert member.assignment == []
        committed = await member.committed([(topic, index) for index in range(PARTITIONS)])
        assert {entry and entry.offset for entry in committed.values()} == {10}
        await member.close()

    run(scenario())


def test_a_pattern_takes_in_topics_that_are_created_later(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        member = consumer(**protocol)
        member.subscribe(pattern=f"{topic}-[ab]")
        reader = Reader(member)
        for name in ("a", "c", "b"):
            await asyncio.to_thread(create_topic, server.bootstrap_servers, f"{topic}-{name}", partitions=1)
        await until(lambda: sorted(name for name, _ in member.assignment) == [f"{topic}-a", f"{topic}-b"])
        await reader.close()

    run(scenario())


def test_partitions_that_are_added_are_read(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        member = consumer(**protocol)
        member.subscribe([topic])
        reader = Reader(member)
        await until(lambda: len(member.assignment) == PARTITIONS)
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        await asyncio.to_thread(
            admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result, PATIENCE_S
        )
        await until(lambda: len(member.assignment) == PARTITIONS + 2)
        await reader.close()

    run(scenario())


def test_who_is_killed_is_replaced_when_its_session_is_over(
    server: Server, topic: str, consumer: Callable[..., Consumer]
) -> None:
    async def scenario() -> None:
        settings = {**EAGER, "session_timeout_ms": 1_500}
        first, second = consumer(**settings), consumer(**settings)
        first.subscribe([topic])
        second.subscribe([topic])
        readers = [Reader(first), Reader(second)]
        await until(lambda: len(first.assignment) == len(second.assignment) == 3)
        await readers[0].stop()
        await first._session.disconnect()
        await until(lambda: len(second.assignment) == PARTITIONS)
        await readers[1].close()

    run(scenario())


def test_who_does_not_poll_for_too_long_leaves_and_comes_back(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        listener = Listener()
        slow, other = consumer(**protocol, max_poll_interval_ms=1_500), consumer(**protocol)
        slow.subscribe([topic], listener=listener)
        other.subscribe([topic])
        readers = [Reader(slow)]
        await until(lambda: len(slow.assignment) == PARTITIONS)
        readers.append(Reader(other))
        await until(lambda: len(slow.assignment) == len(other.assignment) == 3)
        await readers[0].stop()
        before = len(listener.changes)  # On a busy machine it may have been late before, too.
        await until(lambda: len(other.assignment) == PARTITIONS)
        assert slow.assignment == []
        with pytest.raises(AbortableError):
            await slow.commit({(topic, 0): 1})
        readers[0] = Reader(slow)
        await until(lambda: len(slow.assignment) == len(other.assignment) == 3)
        change, lost = listener.changes[before]
        assert (change, len(lost)) == ("lost", 3)
        for reader in readers:
            await reader.close()

    run(scenario())


def test_a_static_member_comes_back_to_its_partitions_and_nobody_notices(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    async def scenario() -> None:
        listener = Listener()
        first = consumer(**protocol, group_instance_id="one")
        other = consumer(**protocol, group_instance_id="two")
        first.subscribe([topic])
        other.subscribe([topic], listener=listener)
        readers = [Reader(first), Reader(other)]
        await until(lambda: len(first.assignment) == len(other.assignment) == 3)
        mine, before = owned(first), len(listener.changes)
        await readers[0].close()
        again = consumer(**protocol, group_instance_id="one")
        again.subscribe([topic])
        readers[0] = Reader(again)
        await until(lambda: owned(again) == mine)
        assert listener.changes[before:] == []
        for reader in readers:
            await reader.close()

    run(scenario())


def test_a_static_member_that_was_replaced_is_told(
    server: Server, topic: str, consumer: Callable[..., Consumer]
) -> None:
    async def scenario() -> None:
        first = consumer(**EAGER, group_instance_id="one")
        first.subscribe([topic])
        await first.poll(500)
        await until_assigned(first)
        second = consumer(**EAGER, group_instance_id="one")
        second.subscribe([topic])
        await until_assigned(second)
        with pytest.raises(FatalError, match="FENCED_INSTANCE_ID"):
            await first.poll(PATIENCE_MS)
        await first.close()
        await second.close()

    run(scenario())


async def until_assigned(consumer: Consumer) -> None:
    while not consumer.assignment:
        await consumer.poll(50)


def test_a_member_that_offers_no_common_assignor_is_told(
    server: Server, topic: str, consumer: Callable[..., Consumer]
) -> None:
    async def scenario() -> None:
        first = consumer(**EAGER)
        first.subscribe([topic])
        await until_assigned(first)
        second = consumer(**{**QUICK, "partition_assignment_strategy": "roundrobin"})
        second.subscribe([topic])
        with pytest.raises(FatalError, match="INCONSISTENT_GROUP_PROTOCOL"):
            await second.poll(PATIENCE_MS)
        await second.close()
        await first.close()

    run(scenario())


def test_members_of_librdkafka_and_of_ours_share_a_group(
    server: Server, topic: str, consumer: Callable[..., Consumer]
) -> None:
    async def scenario() -> None:
        other = confluent_kafka.Consumer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "group.id": f"group-{topic}",
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 200,
                "session.timeout.ms": 45_000,
            }
        )
        other.subscribe([topic])
        ours = consumer(**COOPERATIVE)
        ours.subscribe([topic])
        reader = Reader(ours)
        values = await fill(server, topic, 60)
        theirs: list[bytes] = []

        def poll() -> None:
            theirs.extend(message.value() for message in other.consume(100, timeout=0.1) if message.error() is None)

        while len(other.assignment()) != 3 or len(ours.assignment) != 3:
            await asyncio.to_thread(poll)
        values += await fill(server, topic, 60, start=60)
        while len(set(theirs) | set(reader.values)) < 120:
            await asyncio.to_thread(poll)
        await asyncio.to_thread(other.close)
        await until(lambda: len(ours.assignment) == PARTITIONS)
        await reader.close()
        assert set(theirs) | set(reader.values) == set(values)

    run(scenario())


# Exactly once


async def outputs(server: Server, topic: str) -> list[bytes | None]:
    """Everything that was committed to a topic of one partition."""
    async with Consumer(
        bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        reader.assign([(topic, 0)])
        end = (await reader.end_offsets([(topic, 0)]))[topic, 0]
        records: list[Any] = []
        while await reader.position((topic, 0)) < end:
            records += await reader.poll(200)
    return [record.value for record in records]


def test_positions_are_committed_with_the_transaction_and_go_back_with_it(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    """Scenario 57."""

    async def scenario() -> None:
        values = await fill(server, topic, 60)
        await asyncio.to_thread(create_topic, server.bootstrap_servers, f"{topic}-out", partitions=1)
        attempts = 0
        async with (
            Producer(bootstrap_servers=server.bootstrap_servers, transactional_id=topic) as producer,
            consumer(**protocol, enable_auto_commit=False) as member,
        ):
            member.subscribe([topic])
            done = 0
            while done < 60:
                records = await member.poll(1_000, max_records=7)
                attempts += 1

                async def process(records: Sequence[Any] = records, fails: bool = attempts % 3 == 0) -> None:
                    async with producer.transaction(consumer=member):
                        for record in records:
                            producer.send(f"{topic}-out", record.value, partition=0)
                        if fails:
                            raise ZeroDivisionError

                try:
                    await process()
                    done += len(records)
                except ZeroDivisionError:
                    pass
            committed = await member.committed([(topic, index) for index in range(PARTITIONS)])
            assert {entry and entry.offset for entry in committed.values()} == {10}
        assert attempts > 9
        assert Counter(await outputs(server, f"{topic}-out")) == Counter(values)

    run(scenario())


def test_a_zombie_of_an_old_generation_cannot_commit_its_transaction(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    """Scenario 53: whoever was thrown out of the group does not know it yet, and its transaction is refused."""

    async def scenario() -> None:
        values = await fill(server, topic, 60)
        await asyncio.to_thread(create_topic, server.bootstrap_servers, f"{topic}-out", partitions=1)
        async with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id=topic) as producer:
            zombie = consumer(**protocol, enable_auto_commit=False)
            zombie.subscribe([topic])
            records: list[Any] = []
            while len(records) < 60:
                records += await zombie.poll(1_000)
            member = zombie.group_metadata()
            assert member.generation_id is not None
            await zombie.unsubscribe()  # The group goes on without it.
            heir = consumer(**protocol, enable_auto_commit=False)
            heir.subscribe([topic])
            reader = Reader(heir)
            await until(lambda: len(heir.assignment) == PARTITIONS)
            stranger = GroupMetadata(member.group_id, 99, heir.group_metadata().member_id)
            for stale in (member, zombie.group_metadata(), stranger):
                producer.begin()
                producer.send(f"{topic}-out", b"zombie", partition=0)
                with pytest.raises(
                    AbortableError,
                    match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION|STALE_MEMBER_EPOCH|FENCED_MEMBER_EPOCH",
                ):
                    await producer.send_offsets({(topic, 0): 10}, stale)
                await producer.abort()
            assert await heir.committed([(topic, 0)]) == {(topic, 0): None}
            await until(lambda: len(reader.values) == 60)
            assert sorted(filter(None, reader.values)) == sorted(values)
            await reader.close()
            await zombie.close()
        assert await outputs(server, f"{topic}-out") == []

    run(scenario())


def test_a_rebalance_between_poll_and_commit_loses_nothing_and_doubles_nothing(
    server: Server, topic: str, consumer: Callable[..., Consumer], protocol: dict[str, Any]
) -> None:
    """Scenario 54: members come and go while all of them process in transactions; every input is processed once."""

    async def scenario() -> None:
        await asyncio.to_thread(create_topic, server.bootstrap_servers, f"{topic}-out", partitions=1)
        values = await fill(server, topic, 600)
        seen: set[bytes | None] = set()

        async def work(name: str, stop: asyncio.Event) -> None:
            async with (
                Producer(bootstrap_servers=server.bootstrap_servers, transactional_id=f"{topic}-{name}") as producer,
                consumer(**protocol, enable_auto_commit=False, isolation_level="read_committed") as member,
            ):
                member.subscribe([topic])
                while not stop.is_set():
                    records = await member.poll(100, max_records=10)
                    if not records:
                        continue
                    try:
                        async with producer.transaction(consumer=member):
                            for record in records:
                                producer.send(f"{topic}-out", record.value, partition=0)
                    except AbortableError:
                        continue
                    seen.update(record.value for record in records)

        stops = [asyncio.Event() for _ in range(4)]
        tasks = [asyncio.create_task(work("0", stops[0]))]
        for number in (1, 2, 3):
            await until(lambda number=number: len(seen) >= 100 * number)  # type: ignore[misc]
            tasks.append(asyncio.create_task(work(str(number), stops[number])))
            if number > 1:
                stops[number - 2].set()
        await until(lambda: len(seen) == 600)
        for stop in stops:
            stop.set()
        await asyncio.gather(*tasks)
        assert Counter(await outputs(server, f"{topic}-out")) == Counter(values)

    run(scenario())


# Threads


def test_the_blocking_consumer_calls_its_listener_in_the_thread_that_polls(
    server: Server, topic: str, protocol: dict[str, Any]
) -> None:
    import threading

    values = asyncio.run(fill(server, topic, 60))
    threads: list[tuple[str, int]] = []
    settings = {"bootstrap_servers": server.bootstrap_servers, "group_id": f"group-{topic}", **protocol}
    with blocking.Consumer(**settings, auto_offset_reset="earliest", enable_auto_commit=False) as member:

        class CommitsWhenRevoked:
            def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                threads.append(("assigned", threading.get_ident()))

            def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                threads.append(("revoked", threading.get_ident()))
                member.commit()

        member.subscribe([topic], listener=CommitsWhenRevoked())
        found: list[Any] = []
        for record in member:
            found.append(record.value)
            if len(found) == 60:
                break
        assert sorted(found) == sorted(values)
        member.commit_async({(topic, 0): 3}).result(PATIENCE_S)
        assert member.committed([(topic, 0)]) == {(topic, 0): OffsetAndMetadata(3)}
    assert threads[0] == ("assigned", threading.get_ident())
    assert threads[-1] == ("revoked", threading.get_ident())
    with blocking.Consumer(**settings) as again:
        committed = again.committed([(topic, index) for index in range(PARTITIONS)])
        assert {entry and entry.offset for entry in committed.values()} == {10}


def test_a_blocking_pipeline(server: Server, topic: str, protocol: dict[str, Any]) -> None:
    values = asyncio.run(fill(server, topic, 60))
    create_topic(server.bootstrap_servers, f"{topic}-out", partitions=1)
    settings = {"bootstrap_servers": server.bootstrap_servers, "group_id": f"group-{topic}", **protocol}
    with (
        blocking.Producer(bootstrap_servers=server.bootstrap_servers, transactional_id=topic) as producer,
        blocking.Consumer(**settings, auto_offset_reset="earliest", enable_auto_commit=False) as member,
    ):
        member.subscribe([topic])
        done, attempts = 0, 0
        while done < 60:
            records = member.poll(1_000, max_records=11)
            attempts += 1
            try:
                with producer.transaction(consumer=member):
                    for record in records:
                        producer.send(f"{topic}-out", record.value, partition=0)
                    if attempts == 2:
                        raise ZeroDivisionError
                done += len(records)
            except ZeroDivisionError:
                pass
    assert Counter(asyncio.run(outputs(server, f"{topic}-out"))) == Counter(values)


def test_a_group_id_that_may_not_be_is_told_by_the_broker_or_by_us(server: Server, topic: str) -> None:
    async def scenario() -> None:
        async with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="no-member") as nobody:
            assert await nobody.committed([(topic, 0)]) == {(topic, 0): None}
            await nobody.commit({(topic, 0): 5})
            assert await nobody.committed([(topic, 0)]) == {(topic, 0): OffsetAndMetadata(5)}
            with pytest.raises(KafkaError):
                await nobody.commit({(topic, 0): OffsetAndMetadata(5, "x" * 5_000)})

    run(scenario())
