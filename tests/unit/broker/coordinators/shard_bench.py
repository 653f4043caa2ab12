"""One coordinator partition in virtual time: a real log on a disk that takes its time, and a shard that is a few lines.

The shard keeps numbers by name. Its records say ``name=number``; a transaction's count when the marker comes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from semel.broker.coordinators.shard_runtime import ShardRuntime
from semel.broker.partitions.partitions import LedPartitions
from semel.broker.waiting.deadlines import Deadlines
from semel.coordinator.decision import Decision, Waiter
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.durability.checkpoints import MetaProperties
from semel.log.topic_logs import TopicLogs
from semel.testing.virtual.clock import VirtualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.latency import uniform_ms
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.worker import VirtualWorker
from semel.types import ProducerIdentity, TopicPartition

SYNC_MS = 2.0


@dataclass(frozen=True, slots=True)
class Noted:
    number: int = 0
    error: ErrorCode = ErrorCode.NONE


class Numbers:
    """The shard: implements ``coordinator.shard.Shard``."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.pending: dict[int, list[tuple[str, int]]] = {}
        self.history: list[tuple[int, str]] = []

    def note(self, name: str, number: int, *effects: str) -> Decision[Noted, str, str]:
        return Decision(Noted(number), records=(f"{name}={number}",), effects=effects)

    def read(self, name: str) -> Decision[Noted, str, str]:
        return Decision(Noted(self.numbers.get(name, -1)))

    def note_unless_moving(self, name: str, number: int) -> Decision[Noted, str, str]:
        if self.numbers.get(name) == MOVING:
            return Decision(Noted(error=ErrorCode.CONCURRENT_TRANSACTIONS), wait_for=name)
        return self.note(name, number)

    def encode(self, record: str) -> tuple[bytes, bytes | None]:
        name, number = record.split("=")
        return name.encode(), number.encode()

    def decode(self, key: bytes | None, value: bytes | None) -> str | None:
        assert key is not None
        return None if value is None else f"{key.decode()}={value.decode()}"

    def id_of(self, record: str) -> str:
        return record.split("=")[0]

    def replay(self, record: str, offset: int, producer: ProducerIdentity | None) -> None:
        self.history.append((offset, record))
        name, number = record.split("=")
        if producer is None:
            self.numbers[name] = int(number)
        else:
            self.pending.setdefault(producer.producer_id, []).append((name, int(number)))

    def replay_marker(self, producer: ProducerIdentity, *, committed: bool) -> None:
        pending = self.pending.pop(producer.producer_id, [])
        if committed:
            self.numbers.update(pending)

    def apply(self, change: Callable[[Any], None]) -> None:
        change(self)

    def loaded(self, moment: Moment) -> Decision[None, str, str]:
        return Decision(None)

    def next_deadline_ms(self) -> float | None:
        return None

    def time_out(self, moment: Moment) -> Iterable[Decision[Any, str, str]]:
        return ()

    def unload(self) -> Sequence[Waiter[Any]]:
        return ()


MOVING = 999


class Bench:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.disk = VirtualDisk()
        self.logs = LogDirectory(
            "/d",
            disk=self.disk,
            clock=self.clock,
            loop=self.loop,
            make_worker=lambda name: VirtualWorker(self.loop, random.Random(1), work_ms=uniform_ms(SYNC_MS, SYNC_MS)),
        )
        self.logs.acquire(MetaProperties("c", 1))
        self.logs.load({})
        self.log = self.logs.create(TopicPartition("numbers", 0), TopicLogs(UUID(int=1), LogConfig(), True))
        self.partitions = LedPartitions(self.loop)
        self.partition = self.partitions.add(self.log, leader_epoch=0)
        self.deadlines = Deadlines(self.loop)
        self.told: list[Any] = []
        """Responses and effects, in the order in which they came."""
        self.wait()
        self.runtime = self.new_runtime()
        self.runtime.loaded()

    def new_runtime(self) -> ShardRuntime[Numbers]:
        return ShardRuntime(
            self.partition,
            Numbers(),
            clock=self.clock,
            deadlines=self.deadlines,
            carry_out=lambda runtime, effect: self.told.append(effect),
        )

    @property
    def waiter(self) -> Waiter[Any]:
        return Waiter(self.told.append, refused=lambda error: error)

    @property
    def shard(self) -> Numbers:
        return self.runtime.shard

    def wait(self, seconds: float = 0.1) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def note(self, name: str, number: int, *effects: str) -> None:
        self.runtime.run(lambda shard: shard.note(name, number, *effects), self.waiter)
