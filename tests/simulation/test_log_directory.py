"""Logs under power cuts: what was acknowledged is there afterwards, once, in order, and nothing else is.

The writer is told that a batch is safe when the high watermark has passed it; from then on no crash may take it back.
"""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.durability.checkpoints import MetaProperties
from semel.log.partition_log import PartitionLog
from semel.log.topic_logs import TopicLogs
from semel.testing.simulation import Simulation, seeds, simulate
from semel.testing.virtual.host import VirtualHost
from semel.types import TopicPartition
from tests.logs import NOW_MS, produced, values, visible

TOPIC = TopicLogs(
    UUID(int=1), LogConfig(segment_bytes=2_000, index_interval_bytes=300), synced=True, partitions=(0, 1, 2, 3, 4)
)
PARTITIONS = [TopicPartition("orders", number) for number in range(5)]


class Ledger:
    """What the writers know: per partition the values sent, in order, and how many of them were acknowledged."""

    def __init__(self) -> None:
        self.sent: dict[TopicPartition, list[bytes]] = {name: [] for name in PARTITIONS}
        self.acknowledged: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 0)

    def became_durable(self, log: PartitionLog) -> None:
        visible(log)
        self.acknowledged[log.topic_partition] = log.high_watermark

    def check(self, directory: LogDirectory) -> int:
        """After a start. What was sent but never acknowledged may be there or not: the ledger learns which."""
        total = 0
        for name in PARTITIONS:
            log = directory.get(name)
            stored = [] if log is None else [value for _, value in values(log)]
            assert stored == self.sent[name][: len(stored)], f"{name}: not what was sent"
            assert len(stored) >= self.acknowledged[name], f"{name}: acknowledged records are lost"
            self.sent[name] = self.sent[name][: len(stored)]
            self.acknowledged[name] = len(stored)
            total += len(stored)
        return total


def open_directory(host: VirtualHost, ledger: Ledger, sizes: tuple[int, int]) -> LogDirectory:
    journal_size_bytes, direct_bytes_min = sizes
    directory = LogDirectory(
        "/data",
        disk=host.disk,
        clock=host.clock,
        loop=asyncio.get_running_loop(),
        make_worker=lambda _: host.worker(),
        journal_size_bytes=journal_size_bytes,
        direct_bytes_min=direct_bytes_min,
    )
    directory.acquire(MetaProperties("cluster", 1))
    directory.load({"orders": TOPIC})
    for name in PARTITIONS:
        log = directory.get(name) or directory.create(name, TOPIC)
        log.on_durable = ledger.became_durable
    return directory


async def write(directory: LogDirectory, ledger: Ledger, random: Random) -> None:
    """Append for ever, to one partition or many, a little or a lot, and note what becomes safe."""
    while True:
        for name in random.sample(PARTITIONS, random.randint(1, len(PARTITIONS))):
            log = directory.logs[name]
            for _ in range(random.choice((1, 1, 2, 8))):
                append_one(log, ledger, size=random.choice((10, 100, 1_000)))
        if random.random() < 0.05:
            directory.checkpoint()
        await asyncio.sleep(random.choice((0, 0, 0.001, 0.01)))


def append_one(log: PartitionLog, ledger: Ledger, *, size: int) -> None:
    name = log.topic_partition
    sequence = len(ledger.sent[name])
    value = f"{sequence} ".ljust(size, "x")
    # Before the append: a crash in the middle of it may leave it there.
    ledger.sent[name].append(value.encode())
    appended = log.append(produced(sequence, value, producer=name.partition), now_ms=NOW_MS)
    assert not appended.duplicate


async def survives_crashes(simulation: Simulation) -> None:
    random, host, ledger = simulation.random("test"), simulation.host("broker"), Ledger()
    sizes = (random.choice((1_000, 20_000, 1_000_000)), random.choice((1, 1_000, 1_000_000)))

    async def serve() -> None:
        directory = open_directory(host, ledger, sizes)
        simulation.trace.record(f"{ledger.check(directory)} records")
        await write(directory, ledger, random)

    for _ in range(5):
        host.start(serve())
        if random.random() < 0.7:
            host.cut_power_in_disk_operation(random.choice((random.randint(1, 400), random.randint(400, 4_000))))
        await asyncio.sleep(random.uniform(0.01, 0.5))
        if host.alive:
            host.kill() if random.random() < 0.3 else host.cut_power()
        host.disk.repair()

    async def look() -> int:
        directory = open_directory(host, ledger, sizes)
        total = ledger.check(directory)
        await directory.close()
        assert ledger.check(open_directory(host, ledger, sizes)) == total
        return total

    await host.start(look())


@pytest.mark.parametrize("seed", seeds(10))
def test_nothing_acknowledged_is_lost_or_doubled_by_crashes(seed: int) -> None:
    simulate(seed, survives_crashes)
