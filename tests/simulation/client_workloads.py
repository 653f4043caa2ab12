"""Applications on our own producer and consumer, each on a machine of its own, which may die and start again.

`Sender` sends records one by one; `Bank` moves amounts between accounts, in transactions; `Deserter`
begins one and is gone; `Copier` consumes, transforms and produces, with its offsets in the transaction; `Reader`
watches what is committed while all this goes on. None of them knows of faults: they do what the client's documentation
says about its errors, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

from semel.client.consumer import Consumer
from semel.client.producer import Producer
from semel.errors import AbortableError, ErrorCode, FatalError, SemelError, TimedOut
from semel.testing.checker import Outcome, outcome_of
from semel.testing.simulation import Simulation
from semel.testing.virtual.host import VirtualHost
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.simulation.client_history import History, Pending
from tests.simulation.served_broker import ONE_BROKER
from tests.simulation.wire_client import WireClient, find_group_coordinator

TRANSACTION_TIMEOUT_MS = 4_000
ABORT_PROBABILITY = 0.1


class Instance:
    """One process of an application, on one machine."""

    def __init__(self, simulation: Simulation, name: str, host: VirtualHost, servers: str) -> None:
        self.name = name
        self.host = host
        self._simulation = simulation
        self._servers = servers

    def producer(self, **settings: Any) -> Producer:
        return Producer(**self._seams("producer"), **_CLIENT, delivery_timeout_ms=8_000, **settings)

    def consumer(self) -> Consumer:
        return Consumer(
            **self._seams("consumer"),
            **_CLIENT,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
        )

    def wire_clients(self) -> Iterator[WireClient]:
        """A client of one broker after the other, without end."""
        for server in itertools.cycle(self._servers.split(",")):
            host, _, port = server.partition(":")
            yield WireClient(self.host.network, host, int(port))

    def _seams(self, role: str) -> dict[str, Any]:
        random = self._simulation.random(f"{role} {self.name} {self._simulation.loop.time()}")
        seams = {"network": self.host.network, "clock": self.host.clock, "random": random}
        return {**seams, "bootstrap_servers": self._servers}


class Application:
    """What is to be done, whichever process does it: ``run`` goes on where the last one stopped."""

    def __init__(self, simulation: Simulation, history: History, name: str, *, servers: str = ONE_BROKER) -> None:
        self.name = name
        self.random: Random = simulation.random(f"application {name}")
        self.history = history
        self.is_done = False
        self._simulation = simulation
        self._servers = servers
        self.instance = self._instance(f"{name}.0", simulation.host(name))
        self._count = 1
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def host(self) -> VirtualHost:
        return self.instance.host

    def start(self) -> None:
        self._tasks.append(self.host.start(self.run(self.instance)))

    def die(self) -> bool:
        """The process is killed, and another one started; False if there is none, or nothing left to do for it."""
        if not self.host.alive or self.is_done:
            return False
        self.host.kill()
        self.history.died(self.instance.name)
        self._start_another(self.host)
        return True

    def replace(self) -> VirtualHost:
        """The process is paused, and taken for dead: another one is started elsewhere. Returns where the zombie is."""
        zombie = self.host
        zombie.pause()
        if not self.is_done:
            self._start_another(self._simulation.host(f"{self.name}~{self._count}"))
        return zombie

    def raise_error(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def run(self, instance: Instance) -> None:
        raise NotImplementedError

    def _start_another(self, host: VirtualHost) -> None:
        self.instance = self._instance(f"{self.name}.{self._count}", host)
        self._count += 1
        self.start()

    def _instance(self, name: str, host: VirtualHost) -> Instance:
        return Instance(self._simulation, name, host, self._servers)


_CLIENT: dict[str, Any] = {"request_timeout_ms": 2_000}


class Sender(Application):
    def __init__(
        self,
        simulation: Simulation,
        history: History,
        name: str,
        topic: str,
        partition: int,
        count: int,
        **where: str,
    ) -> None:
        super().__init__(simulation, history, name, **where)
        self._topic, self._partition, self._records = topic, partition, count
        self._next = 0
        self._has_timed_out = False

    async def run(self, instance: Instance) -> None:
        sends: list[asyncio.Task[None]] = []
        self._has_timed_out = False
        async with instance.producer() as producer:
            while self._next < self._records:
                value = f"{self.name}/{self._next}".encode()
                self._next += 1
                sends.append(asyncio.ensure_future(self._send(instance, producer, value)))
                if self.random.random() < 0.4:
                    await asyncio.sleep(self.random.uniform(0, 0.5))
            await asyncio.gather(*sends)
        self.is_done = True

    async def _send(self, instance: Instance, producer: Producer, value: bytes) -> None:
        pending = self.history.begin(instance.name)
        pending.commit_attempted = True
        number = pending.sent(self._topic, self._partition, value)
        try:
            pending.acknowledged(number, await producer.send(self._topic, value, partition=self._partition))
        except TimedOut:
            self._has_timed_out = True
            self.history.end(pending, Outcome.INFO)
        except AbortableError as error:
            # Whatever else there was has been put right within the delivery timeout. But what was numbered after a
            # record that timed out can only be written if that one was, and it is in doubt, too.
            if not self._has_timed_out or error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            self.history.end(pending, Outcome.INFO)
        else:
            self.history.end(pending, Outcome.OK)


class Transactional(Application):
    """An application with a transactional id, which is all that keeps two processes of it apart."""

    async def ready(self, instance: Instance) -> Producer:
        """A producer that has taken over the transactional id: what was open is decided."""
        producer = instance.producer(
            transactional_id=self.name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, max_block_ms=5_000
        )
        await until_told(producer.init)
        return producer

    async def transact(
        self, producer: Producer, pending: Pending, body: Callable[[], Awaitable[None]], *, commit: bool
    ) -> Outcome:
        """Begin, do it, end it. Raises ``FatalError`` if the producer is of no use any more; what became of the
        transaction is in the history then, too."""
        commit_error: SemelError | None = None
        is_aborted = False
        producer.begin()
        try:
            try:
                await body()
                if commit:
                    pending.commit_attempted = True
                    await until_told(producer.commit)
            except AbortableError as error:
                commit_error = error
            if commit_error is not None or not commit:
                await until_told(producer.abort)
                is_aborted = True
        except FatalError as error:
            commit_error = error
            raise
        finally:
            outcome = outcome_of(
                commit_attempted=pending.commit_attempted, commit_error=commit_error, aborted=is_aborted
            )
            self.history.end(pending, outcome)
        return outcome

    def send(self, producer: Producer, pending: Pending, topic: str, partition: int, value: bytes) -> None:
        number = pending.sent(topic, partition, value)

        def told(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                pending.acknowledged(number, future.result())

        producer.send(topic, value, partition=partition).add_done_callback(told)


class Bank(Transactional):
    """Takes from one account what it gives to another: whoever adds up what is committed finds that it is zero."""

    def __init__(
        self,
        simulation: Simulation,
        history: History,
        name: str,
        topic: str,
        accounts: int,
        count: int,
        **where: str,
    ) -> None:
        super().__init__(simulation, history, name, **where)
        self._topic, self._accounts, self._transfers = topic, accounts, count
        self._next = 0

    async def run(self, instance: Instance) -> None:
        producer = await self.ready(instance)
        while self._next < self._transfers:
            try:
                await self._transfer(instance, producer)
            except FatalError:
                await producer.close(timeout_ms=0)
                if instance is not self.instance:
                    return  # Fenced by the one that replaced it.
                producer = await self.ready(instance)
            await asyncio.sleep(self.random.uniform(0, 0.4))
        await producer.close()
        self.is_done = True

    async def _transfer(self, instance: Instance, producer: Producer) -> None:
        self._next += 1
        name = f"{self.name}/{self._next}"
        source, target = self.random.sample(range(self._accounts), 2)
        amount = self.random.randint(1, 100)
        pending = self.history.begin(instance.name)

        async def body() -> None:
            self.send(producer, pending, self._topic, source, f"{name}:{-amount}".encode())
            if self.random.random() < 0.5:
                await asyncio.sleep(self.random.uniform(0, 0.3))
            self.send(producer, pending, self._topic, target, f"{name}:{amount}".encode())
            if self.random.random() < 0.3:
                await producer.flush()

        await self.transact(producer, pending, body, commit=self.random.random() >= ABORT_PROBABILITY)


class Deserter(Transactional):
    """Writes in a transaction, and never comes back to end it: somebody else has to."""

    def __init__(
        self, simulation: Simulation, history: History, name: str, topic: str, partitions: int, **where: str
    ) -> None:
        super().__init__(simulation, history, name, **where)
        self._topic, self._partitions = topic, partitions

    async def run(self, instance: Instance) -> None:
        producer = await self.ready(instance)
        pending = self.history.begin(instance.name)
        producer.begin()
        for partition in range(self._partitions):
            self.send(producer, pending, self._topic, partition, f"{instance.name}:1000".encode())
        with contextlib.suppress(AbortableError, FatalError):
            await producer.flush()
        self.is_done = True
        self.history.died(instance.name)
        await asyncio.get_running_loop().create_future()


class Copier(Transactional):
    """Copies one partition, each record once: what it wrote and how far it has read are committed together."""

    def __init__(
        self,
        simulation: Simulation,
        history: History,
        name: str,
        *,
        source: TopicPartition,
        target: str,
        partitions: int,
        is_all_sent: Callable[[], bool],
        **where: str,
    ) -> None:
        super().__init__(simulation, history, name, **where)
        self.group = f"group-of-{name}"
        self._source, self._target, self._partitions = source, target, partitions
        self._is_all_sent = is_all_sent
        self._attempts = 0

    async def run(self, instance: Instance) -> None:
        while not self.is_done and instance is self.instance:
            producer, consumer = await self.ready(instance), instance.consumer()
            consumer.assign([self._source])
            try:
                await self._copy(instance, producer, consumer)
                self.is_done = True
            except FatalError:
                pass
            finally:
                await consumer.close()
                await producer.close(timeout_ms=0)

    async def _copy(self, instance: Instance, producer: Producer, consumer: Consumer) -> None:
        is_repositioned = True
        while True:
            is_last = self._is_all_sent()
            if is_repositioned:
                consumer.seek(self._source, await self._committed(instance))
            pending = self.history.begin(instance.name)
            records = await consumer.poll(500, max_records=self.random.randint(1, 4))
            pending.polled(records)
            if is_repositioned:
                pending.repositioned.add(self._source)
            if not records:
                self.history.end(pending, Outcome.OK)
                if is_last and await self._is_at_end(consumer):
                    return
                continue

            async def body() -> None:
                for record in records:  # noqa: B023 - awaited before the next round
                    assert record.value is not None
                    self._attempts += 1
                    value = record.value + f"@{self.name}.{self._attempts}".encode()
                    partition = self.random.randrange(self._partitions)
                    self.send(producer, pending, self._target, partition, value)  # noqa: B023
                await until_told(lambda: producer.send_offsets({self._source: records[-1].offset + 1}, self.group))  # noqa: B023

            commit = self.random.random() >= ABORT_PROBABILITY
            is_repositioned = await self.transact(producer, pending, body, commit=commit) is not Outcome.OK
            if is_repositioned:
                await asyncio.sleep(self.random.uniform(0, 0.2))

    async def _is_at_end(self, consumer: Consumer) -> bool:
        try:
            return (await consumer.end_offsets([self._source]))[self._source] == await consumer.position(self._source)
        except TimedOut:
            return False

    async def _committed(self, instance: Instance) -> int:
        asked = [OffsetFetchRequestTopic(self._source.topic, [self._source.partition])]
        for client in instance.wire_clients():
            try:
                coordinator = await find_group_coordinator(client, self.group)
                answer = await coordinator.call(
                    ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(self.group, asked, require_stable=True)
                )
                found = None if answer.error_code else answer.topics[0].partitions[0]
                if found is not None and found.error_code == 0:
                    committed: int | None = found.committed_offset
                    return committed or 0
            except (OSError, TimeoutError):
                pass
            finally:
                client.close()
            await asyncio.sleep(0.1)
        raise AssertionError("there is always another broker")


class Reader(Application):
    """Reads what is committed from the beginning on, until it is stopped."""

    def __init__(
        self, simulation: Simulation, history: History, name: str, partitions: list[TopicPartition], **where: str
    ) -> None:
        super().__init__(simulation, history, name, **where)
        self._partitions = partitions

    async def run(self, instance: Instance) -> None:
        is_last = False
        async with instance.consumer() as consumer:
            consumer.assign(self._partitions)
            while not is_last:
                is_last = self.is_done
                await self._poll(instance, consumer, 1_000)

    async def read_to_end(self) -> None:
        async with self.instance.consumer() as consumer:
            consumer.assign(self._partitions)
            ends = await consumer.end_offsets(self._partitions)
            for partition in self._partitions:
                while await consumer.position(partition) < ends[partition]:
                    await self._poll(self.instance, consumer, 500)

    async def _poll(self, instance: Instance, consumer: Consumer, timeout_ms: float) -> None:
        pending = self.history.begin(instance.name)
        records = await consumer.poll(timeout_ms, max_records=self.random.randint(1, 20))
        pending.polled(records)
        self.history.end(pending, Outcome.OK)


async def until_told(call: Callable[[], Awaitable[None]]) -> None:
    """Ask until the outcome is known, as the client's documentation says: what timed out is still pursued."""
    while True:
        try:
            return await call()
        except TimedOut:
            continue
