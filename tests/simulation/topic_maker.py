"""An application that writes to topics as soon as they are made, by one broker after the other, and deletes some.

The other brokers may not know of such a topic yet, the coordinator of its transactions among them.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Final

from semel.client.producer import Producer
from semel.errors import ErrorCode, FatalError
from semel.testing.checker import Outcome
from semel.testing.simulation import Simulation
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from tests.simulation.client_history import History
from tests.simulation.client_workloads import Instance, Transactional
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import Served

PARTITIONS = 3
DELETE_PROBABILITY = 0.25

_DONE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class TopicMaker(Transactional):
    """``count`` topics, one transaction in each. It keeps a history of its own: no other application reads them."""

    def __init__(self, simulation: Simulation, name: str, count: int, *, replicas: int = 1, **where: str) -> None:
        super().__init__(simulation, History(simulation.loop.time), name, **where)
        self._count_wanted = count
        self._replicas = replicas
        self._next = 0
        self._deleted: set[str] = set()

    async def run(self, instance: Instance) -> None:
        producer = await self.ready(instance)
        while self._next < self._count_wanted:
            topic = f"{self.name}-{self._next}"
            self._next += 1
            await self._make(instance, topic)
            try:
                await self._write(instance, producer, topic)
            except FatalError:
                await producer.close(timeout_ms=0)
                if instance is not self.instance:
                    return  # Fenced by the one that replaced it.
                producer = await self.ready(instance)
            await asyncio.sleep(self.random.uniform(0, 1.0))
        await producer.close()
        self.is_done = True

    async def _write(self, instance: Instance, producer: Producer, topic: str) -> None:
        pending = self.history.begin(instance.name)

        async def body() -> None:
            for partition in range(PARTITIONS):
                self.send(producer, pending, topic, partition, f"{topic}/{partition}".encode())
            if self.random.random() < DELETE_PROBABILITY:
                self._deleted.add(topic)
                await producer.flush()
                await self._ask(instance, ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic]))

        await self.transact(producer, pending, body, commit=True)

    async def _make(self, instance: Instance, topic: str) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=self._replicas)
        await self._ask(instance, ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[wanted]))

    async def _ask(self, instance: Instance, key: ApiKey, version: int, request: object) -> None:
        """Ask one broker after the other, until one has done it."""
        clients = instance.wire_clients()
        for client in islice(clients, self.random.randrange(3), None):
            try:
                answer = await client.call(key, version, request)
                if (answer.topics if key is ApiKey.CREATE_TOPICS else answer.responses)[0].error_code in _DONE:
                    return
            except (OSError, TimeoutError):
                pass
            finally:
                client.close()
            await asyncio.sleep(0.1)

    async def check(self, served: Served) -> None:
        """What was committed is there, what was aborted is not, and nothing is open."""
        for operation in self.history.operations:
            for sent in operation.sent():
                if sent.partition.topic in self._deleted:
                    continue
                found = await read_committed(served.leader_of(sent.partition), sent.partition)
                is_wrong = operation.outcome is (Outcome.FAIL if found else Outcome.OK)
                assert found in ([], [sent.value]), f"{sent.partition}: {found}"
                assert not is_wrong, f"{sent.partition}: {found} after {operation.outcome}"
