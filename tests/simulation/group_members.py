"""Applications that share partitions in a group, each on a machine of its own, which may die and start again.

`Copier` copies in transactions, with how far it has read in each; `Reader` commits plainly what it has worked on, in
one of three ways. None of them knows of faults: they do what the client's documentation says about its errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from semel.client.consumer import Consumer
from semel.client.producer import Producer
from semel.client.values import ConsumerRecord, GroupMetadata, OffsetAndMetadata
from semel.errors import AbortableError, RetriableError, SemelError
from semel.testing.simulation import Simulation
from semel.testing.virtual.host import VirtualHost
from semel.types import TopicPartition
from tests.simulation.group_ledger import Ledger, owner_of
from tests.simulation.served_broker import ONE_BROKER

INPUT, OUTPUT = "input", "output"
SESSION_TIMEOUT_MS = 2_000
# Longer than a session: a member that was paused wakes as a zombie with a transaction that could still be committed.
TRANSACTION_TIMEOUT_MS = 6_000

_CLIENT: dict[str, Any] = {"request_timeout_ms": 1_000}
_CLASSIC = {"session_timeout_ms": SESSION_TIMEOUT_MS, "heartbeat_interval_ms": 300}

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {**_CLASSIC, "partition_assignment_strategy": "range"},
    "cooperative": {**_CLASSIC, "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


class Member:
    """One consumer in its group, which listens for its partitions."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.assigned = GroupMetadata("")
        """Who it was when it was last assigned partitions: a generation that it has only joined may be named again."""
        self.begun: dict[TopicPartition, int] = {}
        """Of each partition, the offset whose commit was begun last."""
        self.uncommitted: dict[TopicPartition, int] = {}
        """Those of them whose commit failed and may be tried again."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned = self.consumer.group_metadata()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called for lost partitions, too."""
        for partition in partitions:
            self.begun.pop(partition, None)
            self.uncommitted.pop(partition, None)

    def begin_commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.begun.update(offsets)
        for partition in offsets:
            self.uncommitted.pop(partition, None)

    def keep_uncommitted(self, offsets: dict[TopicPartition, int]) -> None:
        self.uncommitted.update((one, offset) for one, offset in offsets.items() if self.begun.get(one) == offset)


class Worker:
    """One member, whichever process it is: after a death or a farewell another one is started.

    ``next_protocol`` says in which way a process joins after one that did in that way, or after none (empty);
    ``is_static``, whether it keeps its name.
    """

    group = "workers"

    def __init__(
        self,
        simulation: Simulation,
        ledger: Ledger,
        name: str,
        next_protocol: Callable[[str], str],
        *,
        is_static: bool,
        servers: str = ONE_BROKER,
    ) -> None:
        self.name = name
        self.host = simulation.host(name)
        self.random: Random = simulation.random(f"application {name}")
        self.protocol = ""
        self._ledger = ledger
        self._simulation = simulation
        self._next_protocol = next_protocol
        self.is_static = is_static
        self._servers = servers
        self._count = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._count += 1
        self.protocol = self._next_protocol(self.protocol)
        self._tasks.append(self.host.start(self._run(self._count, self.host)))

    def replace(self) -> VirtualHost:
        """The process is paused and taken for dead: another one starts elsewhere. Returns where the zombie is."""
        zombie = self.host
        zombie.pause()
        self.host = self._simulation.host(f"{self.name}~{self._count}")
        self.start()
        return zombie

    def retire(self) -> None:
        """The process is asked to end: it leaves the group when it has done what it is about."""
        self._count += 1

    def commits_come_late(self) -> None:
        """A plain commit may be carried out after a later one of the same member."""
        self._ledger.commits_come_late = True

    def raise_error(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def work(self, member: Member, is_wanted: Callable[[], bool]) -> None:
        """Until nobody wants it any more, or something fails for good."""
        raise NotImplementedError

    def consumer_settings(self) -> dict[str, Any]:
        return {}

    async def poll(self, member: Member) -> list[ConsumerRecord]:
        records = await member.consumer.poll(200, max_records=self.random.randint(1, 6))
        if records:
            self._ledger.read(member.assigned, records)
        return records

    def seams(self, role: str) -> dict[str, Any]:
        now = self._simulation.loop.time()
        random = self._simulation.random(f"{role} {self.name} {self._count} {now}")
        seams = {"network": self.host.network, "clock": self.host.clock, "random": random}
        return {**seams, "bootstrap_servers": self._servers}

    async def _run(self, number: int, host: VirtualHost) -> None:
        def is_wanted() -> bool:
            return number == self._count

        while is_wanted():
            try:
                async with self._consumer() as consumer:
                    member = Member(consumer)
                    consumer.subscribe([INPUT], listener=member)
                    await self.work(member, is_wanted)
            except SemelError as error:
                # It cannot go on: with new clients it can.
                self._simulation.trace.record(f"{host.name} begins anew: {error}")
                await asyncio.sleep(0.1)

    def _consumer(self) -> Consumer:
        return Consumer(
            **self.seams("consumer"),
            **_CLIENT,
            **PROTOCOLS[self.protocol],
            **self.consumer_settings(),
            group_id=self.group,
            group_instance_id=self.name if self.is_static else None,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_poll_interval_ms=3_000,
            default_api_timeout_ms=4_000,
            fetch_max_wait_ms=300,
        )


class Copier(Worker):
    """One transaction for what a poll has returned."""

    def consumer_settings(self) -> dict[str, Any]:
        return {"enable_auto_commit": False}

    async def work(self, member: Member, is_wanted: Callable[[], bool]) -> None:
        async with self._producer() as producer:
            while is_wanted():
                records = await self.poll(member)
                if records:
                    await self._copy(producer, member.consumer, records)

    async def _copy(self, producer: Producer, consumer: Consumer, records: list[ConsumerRecord]) -> None:
        try:
            async with producer.transaction(consumer=consumer):
                for record in records:
                    producer.send(OUTPUT, record.value, partition=0)
                await asyncio.sleep(self.random.choice((0.0, 0.1, 0.3, 1.0)))
                if self.random.random() < 0.1:
                    raise _Intended
        except (AbortableError, _Intended):
            pass

    def _producer(self) -> Producer:
        return Producer(
            **self.seams("producer"),
            **_CLIENT,
            max_block_ms=4_000,
            delivery_timeout_ms=3_000,
            # Whoever takes its place has another one: nothing but the group keeps a zombie from committing.
            transactional_id=self.host.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )


class _Intended(Exception):
    pass


class Reader(Worker):
    """Works on what a poll has returned, and then commits it: by itself, or by hand and with its name beside it."""

    def consumer_settings(self) -> dict[str, Any]:
        by_itself = self.random.random() < 0.3
        return {"enable_auto_commit": by_itself, "auto_commit_interval_ms": 300}

    async def work(self, member: Member, is_wanted: Callable[[], bool]) -> None:
        consumer = member.consumer
        while is_wanted():
            records = await self.poll(member)
            if self.random.random() < 0.5:
                await asyncio.sleep(self.random.choice((0.05, 0.3, 1.0)))
            self._ledger.processed.update(record.value for record in records if record.value is not None)
            if not consumer._session.is_auto_commit:
                read = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
                if offsets := member.uncommitted | read:
                    await self._commit(member, offsets)

    async def _commit(self, member: Member, offsets: dict[TopicPartition, int]) -> None:
        member.begin_commit(offsets)
        owner = owner_of(member.consumer.group_metadata())
        noted = {partition: OffsetAndMetadata(offset, owner) for partition, offset in offsets.items()}
        try:
            if self.random.random() < 0.2:
                member.consumer.commit_async(noted).add_done_callback(lambda done: self._ended(member, offsets, done))
            else:
                await member.consumer.commit(noted)
                self._told(offsets)
        except AbortableError:
            pass  # The group has gone on without this member: other members read these records again.
        except RetriableError:
            # In the middle of a rebalance. What this member keeps it does not read again: it commits it later.
            member.keep_uncommitted(offsets)

    def _ended(self, member: Member, offsets: dict[TopicPartition, int], done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        if done.exception() is None:
            self._told(offsets)
        elif isinstance(done.exception(), RetriableError):
            member.keep_uncommitted(offsets)

    def _told(self, offsets: dict[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._ledger.told(partition, offset)
