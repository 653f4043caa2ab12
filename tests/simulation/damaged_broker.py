"""A broker's data directory with everything in it, one damage to one of its files, and two starts of the real broker.

The directory has topics with settings, a deleted topic, groups whose offsets were committed plainly and in
transactions, transactional ids, an open transaction, and blocks of producer ids. The oracle is what was acknowledged.

The law: a start is refused in a sentence that names the file and the remedy, or everything is as it was acknowledged,
or what is not served is named with its folder and the remedy: a partition is offline, a coordinator gives a final
answer. Records end in front of a damaged batch at the worst. What is acknowledged after the first start is there after
the second, a batch that is sent again is known, and no producer id is given twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.errors import ErrorCode, StorageError
from semel.log.disk import read_file
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.host import VirtualHost
from semel.types import Address, TopicPartition
from tests.simulation import kept_state
from tests.simulation.damaged_directory import damage, files
from tests.simulation.kept_state import PAYMENTS, PLAIN, UNDECIDED, Answer, Damaged, Identity, Kept, Writer
from tests.simulation.served_broker import BROKER, CLIENTS, PORT, SETTINGS
from tests.simulation.wire_client import WireClient

REMEDY = "semel log repair"
META_PROPERTIES = "/data/meta.properties"
METADATA = ("/data/metadata", "/data/metadata.copy")
# So that the clock does not go back where a simulation begins with the disk of another.
LATER_S = 60.0


@dataclass(frozen=True)
class Prepared:
    disk: VirtualDisk
    older: VirtualDisk  # the same directory at its first checkpoint
    kept: Kept


@cache
def prepared(*, clean: bool) -> Prepared:
    async def scenario(simulation: Simulation) -> Prepared:
        host = simulation.host(BROKER)
        host.disk = VirtualDisk()
        broker = await started(host)
        client = WireClient(simulation.host(CLIENTS).network, BROKER, PORT)
        writer = Writer(client, Kept(cluster_id=broker.cluster_id))
        await kept_state.fill(writer, 0)
        broker.node.logs.checkpoint()
        await asyncio.sleep(1)
        older = host.disk.copy()
        await kept_state.fill(writer, 1)
        broker.node.logs.checkpoint()
        await asyncio.sleep(1)
        await kept_state.fill(writer, 2)
        await asyncio.sleep(0.1)
        await end(host, broker, clean=clean)
        return Prepared(host.disk, older, writer.kept)

    return run(scenario)


async def started(host: VirtualHost) -> Broker:
    broker = Broker(
        BrokerConfig.load("", {**SETTINGS, "log.flush.offset.checkpoint.interval.ms": "60000"}),
        listen=Address(BROKER, PORT),
        disk=host.disk,
        network=host.network,
        clock=host.clock,
        random=Random(1),
        make_worker=lambda _: host.worker(brief_at_once=True),
    )
    await host.start(broker.start())
    return broker


async def end(host: VirtualHost, broker: Broker, *, clean: bool) -> None:
    if clean:
        await host.start(broker.stop())
    host.kill()
    host.disk.kill()


@dataclass(frozen=True)
class Struck:
    """A copy of a prepared directory with the damage of a seed."""

    case: Prepared
    disk: VirtualDisk
    path: str
    kind: str
    about: str
    is_changed: bool
    random: Random

    @classmethod
    def by(cls, seed: int) -> Struck:
        random = Random(seed)
        clean = random.random() < 0.5
        case = prepared(clean=clean)
        disk = case.disk.copy()
        kind, path = damage(disk, case.older, random, files(disk))
        about = f"seed {seed}: {kind} of {path} after a {'clean stop' if clean else 'kill'}"
        is_changed = not disk.exists(path) or read_file(disk, path) != read_file(case.disk.copy(), path)
        return cls(case, disk, path, kind, about, is_changed, random)


def withstand_as_broker(seed: int) -> dict[str, int]:
    """Raises ``AssertionError`` where the law is broken. Returns what became of the partitions."""
    struck = Struck.by(seed)
    path, random = struck.path, struck.random

    async def scenario(simulation: Simulation) -> dict[str, int]:
        await asyncio.sleep(LATER_S)
        host = simulation.host(BROKER)
        host.disk = struck.disk
        client = WireClient(simulation.host(CLIENTS).network, BROKER, PORT)
        starts = Starts(host, client, struck.case.kept.copy(), path, struck.about)
        with said() as lines:
            await starts.once(clean=random.random() < 0.5)
            if struck.is_changed and path in METADATA:
                assert any(path in line for line in lines), f"{struck.about}: no line names it"
            await starts.once(clean=random.random() < 0.5)
            if refused := starts.counts["refused"]:
                struck.disk.remove(META_PROPERTIES)  # The remedy that the refusals name.
                await starts.once(clean=True)
                assert starts.counts["refused"] == refused, f"{struck.about}: the remedy does not help"
        return dict(starts.counts)

    try:
        return run(scenario, seed=seed)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{struck.about}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def said() -> Iterator[list[str]]:
    """The lines of the log. Asserts that none of them has a traceback."""
    logger = logging.getLogger("semel")
    lines: list[str] = []
    traced: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            if record.exc_info:
                traced.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    listener = Listener()
    logger.addHandler(listener)
    try:
        yield lines
    finally:
        logger.removeHandler(listener)
    assert not traced, traced


class Starts:
    """The starts after one damage. ``kept`` grows by what is acknowledged meanwhile."""

    def __init__(self, host: VirtualHost, client: WireClient, kept: Kept, path: str, about: str) -> None:
        self.counts: Counter[str] = Counter()
        self._host = host
        self._client = client
        self._kept = kept
        self._path = path
        self._about = about
        self._number = 0

    async def once(self, *, clean: bool) -> None:
        self._number += 1
        self._client.close()
        try:
            broker = await started(self._host)
        except StorageError as error:
            self._host.kill()
            self._host.disk.kill()
            self._demand(self._path == META_PROPERTIES, f"refused: {error}")
            self._demand("meta.properties" in str(error), f"the file is not named: {error}")
            self._demand("move it away" in str(error), f"the remedy is not named: {error}")
            self.counts["refused"] += 1
            return
        offline = {partition: found.reason for partition, found in broker.node.logs.unavailable.items()}
        for partition, reason in offline.items():
            self._demand(f"/data/{partition}" in reason and REMEDY in reason, f"{partition} is offline: {reason}")
            self._demand(self._may_suffer(partition), f"{partition} is offline: {reason}")
            self.counts["offline"] += 1
        shown = f"semel_partitions_offline {len(offline)}"
        self._demand(shown in broker.metrics.render().splitlines(), f"the metrics do not show {shown}")
        await self._compare(offline)
        await self._go_on(offline)
        if self._number > 1:
            await self._decide(offline)
        await end(self._host, broker, clean=clean)

    async def _compare(self, offline: dict[TopicPartition, str]) -> None:
        kept, found = self._kept, await kept_state.read(self._client, self._kept)
        self._demand(found["cluster_id"] == kept.cluster_id, f"the cluster is {found['cluster_id']}")
        self._demand(found["topics"] == kept.topics, f"the topics are {found['topics']}")
        self._demand(found["settings"] == kept.settings, f"the settings are {found['settings']}")
        for partition, expected in kept.records.items():
            values = found["records"][partition]
            if partition in offline:
                self._demand(values == Answer(ErrorCode.KAFKA_STORAGE_ERROR), f"{partition} shows {values}")
            elif isinstance(values, Damaged):
                self._demand(self._is_in_log_of(partition), f"{partition} has a damaged batch")
                self._demand(values.before == expected[: len(values.before)], f"{partition} shows {values}")
                self.counts["stopped at a damaged batch"] += 1
            else:
                self._demand(values == expected, f"{partition} shows {values}; it had {expected}")
                self.counts["whole"] += 1
        for name, expected_of_id in {**kept.offsets, **kept.transactions}.items():
            shown = found["offsets"].get(name) or found["transactions"].get(name)
            if isinstance(shown, Answer):
                self._demand_final(name, shown)
            else:
                self._demand(shown == expected_of_id, f"{name} has {shown}; it had {expected_of_id}")

    def _demand_final(self, name: str, answer: Answer) -> None:
        """Clients of a damaged coordinator must not ask for ever, and their operators must know what to do."""
        self._demand(answer.code == ErrorCode.UNKNOWN_SERVER_ERROR, f"{name} gets {answer}")
        self._demand("/data/__" in answer.text and REMEDY in answer.text, f"{name} gets {answer}")
        folder = self._path.rpartition("/")[0]
        self._demand(folder == "/data" or f"{folder}" in answer.text, f"{name} gets {answer}")
        self.counts["coordinator refuses"] += 1

    async def _go_on(self, offline: dict[TopicPartition, str]) -> None:
        """What is acknowledged from now on must be there after the next start too."""
        client, kept, number = self._client, self._kept, self._number
        batch = kept.last_batch
        assert batch is not None
        again = await kept_state.produce(client, PLAIN, batch.value, batch.identity, batch.sequence)
        if PLAIN in offline:
            self._demand(again.error_code == ErrorCode.KAFKA_STORAGE_ERROR, f"{PLAIN} answers {again}")
        else:
            known = (again.error_code, again.base_offset) == (ErrorCode.NONE, batch.base_offset)
            self._demand(known, f"a batch that was sent again is not known: {again}")
        producer_id = await kept_state.new_producer_id(client)
        self._demand(producer_id not in kept.producer_ids, f"producer id {producer_id} is given twice")
        kept.producer_ids.add(producer_id)
        for partition in (PAYMENTS, PLAIN):
            value = b"after start %d" % number
            answer = await kept_state.produce(client, partition, value, Identity(producer_id, 0), 0)
            expected = ErrorCode.KAFKA_STORAGE_ERROR if partition in offline else ErrorCode.NONE
            self._demand(answer.error_code == expected, f"{partition} answers {answer}")
            if partition not in offline:
                kept.records[partition].append(value)
        for group, offsets in kept.offsets.items():
            if await kept_state.find(client, 0, group) is None:
                code = await kept_state.commit(client, group, PLAIN, 1000 + number)
                self._demand(code == ErrorCode.NONE, f"{group} cannot commit: {code}")
                offsets[PLAIN] = 1000 + number

    async def _decide(self, offline: dict[TopicPartition, str]) -> None:
        """The transaction that was open all the time is committed."""
        client, kept = self._client, self._kept
        if await kept_state.find(client, 1, "drawer") is not None:
            return
        code = await kept_state.end_transaction(client, "drawer", kept.transactions["drawer"][0])
        self._demand(code == ErrorCode.NONE, f"the open transaction cannot be committed: {code}")
        await asyncio.sleep(1)
        found = await kept_state.read(client, kept)
        values = found["records"][UNDECIDED]
        if UNDECIDED not in offline and not isinstance(values, Damaged):
            is_there = values == [*kept.records[UNDECIDED], b"undecided"]
            self._demand(is_there, f"{UNDECIDED} shows {values}")
        offsets = found["offsets"]["bookkeepers"]
        if not isinstance(offsets, Answer) and UNDECIDED not in offline:
            self._demand(offsets.get(UNDECIDED) == 77, f"bookkeepers have {offsets}")

    def _may_suffer(self, partition: TopicPartition) -> bool:
        return self._path.startswith(f"/data/{partition}/") or self._path.count("/") == 2

    def _is_in_log_of(self, partition: TopicPartition) -> bool:
        return self._path.startswith(f"/data/{partition}/") and self._path.endswith(".log")

    def _demand(self, holds: bool, otherwise: str) -> None:
        assert holds, f"{self._about}, start {self._number}: {otherwise}"
