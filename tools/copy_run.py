"""Kills a broker with SIGKILL several times while a topic is copied in transactions, and checks the copy.

A kill happens shortly after a random number of further records, and sometimes a second time while the broker is still
recovering. To a read_committed reader, each partition of the copy must then be the same list of records as its source:
nothing lost, duplicate, out of order or aborted. No transaction may have been open for longer than its timeout, plus
the interval in which the broker looks for expired ones, plus the longest time for which the broker was down.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tools.copier_process import OWN, Copier, CopierProcess
from tools.copiers.task import Task
from tools.frames import now_ms
from tools.load import create_topic
from tools.patience import PATIENCE_S, wait_until
from tools.transaction_ages import TransactionAges, undecided_ages_ms

PARTITIONS: Final = 4
GROUP: Final = "copiers"
TRANSACTION_TIMEOUT_MS: Final = 10_000
SWEEP_MS_MAX: Final = 15_000
# The part of the source that is written only after the last kill, so that no kill happens when all is already copied.
_HELD_BACK: Final = 0.05


class Killable(Protocol):
    """A broker that is killed, or a cluster of which one broker is killed."""

    @property
    def bootstrap_servers(self) -> str: ...

    def kill(self) -> None: ...

    def launch_process(self) -> None:
        """Start its process, without waiting until the broker is ready."""

    def start(self) -> object:
        """Start the broker again; it is ready when this returns."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The brokers that lead the partitions of the two topics, and a group with the wanted coordinator."""

    source: Sequence[int]
    target: Sequence[int]
    group: str


@dataclass(frozen=True, slots=True)
class CopyRun:
    client: str
    seed: int
    records: int
    kills: int
    gave_up: int
    hung: int
    longest_outage_ms: int
    oldest_transaction_ms: int
    seconds: float
    anomalies: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.anomalies


def copy_under_kills(
    server: Killable,
    copier: Copier,
    folder: Path,
    *,
    seed: int,
    records: int,
    kills: int,
    hang_s_max: float = 45.0,
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    sweep_ms_max: int = SWEEP_MS_MAX,
    placement: Placement | None = None,
    replicas: int = 1,
) -> CopyRun:
    """Copy a topic with one client while the running server is killed, and return the verdict.

    The server runs again afterwards.
    """
    started = time.monotonic()
    chosen = random.Random(seed)
    source, target = "source", target_of(copier)
    for topic in (source, target):
        leaders = None if placement is None else placement.source if topic == source else placement.target
        create_topic(server.bootstrap_servers, topic, partitions=PARTITIONS, leaders=leaders, replicas=replicas)
    values = values_of(records)
    ends = tuple(map(len, values))
    held_back = int(records * (1 - _HELD_BACK))
    fill(server.bootstrap_servers, source, values, range(held_back))
    group = GROUP if placement is None else placement.group
    task = Task(
        server.bootstrap_servers, source, target, transactional_id_of(copier), group, transaction_timeout_ms, ends
    )
    output = folder / f"{copier.name}.txt"
    process = CopierProcess(copier, task, output, hang_s_max=hang_s_max)
    killed = longest_outage_ms = 0
    try:
        with TransactionAges(server.bootstrap_servers) as ages:
            for number in range(kills):
                # Kills are spread over the first nine tenths, so that the copier still runs at each of them.
                goal = int(records * 0.9 * (number + chosen.random()) / kills)
                _wait_until_copied(process, goal)
                time.sleep(chosen.uniform(0.0, 0.02))
                killed += not process.is_done
                killed_ms = now_ms()
                server.kill()
                if chosen.random() < 0.25:
                    server.launch_process()
                    time.sleep(chosen.uniform(0.0, 0.3))
                    server.kill()
                server.start()
                longest_outage_ms = max(longest_outage_ms, now_ms() - killed_ms)
            fill(server.bootstrap_servers, source, values, range(held_back, records))
            _wait_until_copied(process, records)
        anomalies = [*_still_open(server), *_too_old(ages, transaction_timeout_ms, sweep_ms_max, longest_outage_ms)]
    finally:
        process.end()
    copied = read_committed(server.bootstrap_servers, target)
    for partition, (expected, found) in enumerate(zip(values, copied, strict=True)):
        anomalies += [f"partition {partition}: {difference}" for difference in differences(expected, found)]
    if killed < kills:
        anomalies.append(f"only {killed} of {kills} kills met a copier at work")
    if copier.name == OWN and process.gave_up + process.hung:
        anomalies.append(f"our own client had to be started again: {process.printed()}")
    return CopyRun(
        client=copier.name,
        seed=seed,
        records=records,
        kills=killed,
        gave_up=process.gave_up,
        hung=process.hung,
        longest_outage_ms=longest_outage_ms,
        oldest_transaction_ms=ages.oldest_ms,
        seconds=round(time.monotonic() - started, 1),
        anomalies=tuple(anomalies),
    )


def target_of(copier: Copier) -> str:
    return f"copy-by-{copier.name}"


def transactional_id_of(copier: Copier) -> str:
    return f"by-{copier.name}"


def differences(expected: list[bytes], found: list[bytes]) -> list[str]:
    """Return the differences between a partition's copy and its source, whose values are all different."""
    if found == expected:
        return []
    counted, told = Counter(found), []
    lost = [value for value in expected if value not in counted]
    doubled = [value for value, count in counted.items() if count > 1]
    unknown = counted.keys() - set(expected)
    for what, which in (("lost", lost), ("copied twice", doubled), ("not from the source", sorted(unknown))):
        if which:
            told.append(f"{len(which)} records {what}, {which[0]!r} first")
    return told or [f"out of order, at {next(b for a, b in zip(expected, found, strict=True) if a != b)!r} first"]


def values_of(records: int) -> list[list[bytes]]:
    """Return ``records`` different values: those of each partition, in order."""
    return [
        [f"record {number}".encode().ljust(60, b".") for number in range(partition, records, PARTITIONS)]
        for partition in range(PARTITIONS)
    ]


def fill(bootstrap_servers: str, topic: str, values: Sequence[Sequence[bytes]], numbers: Iterable[int]) -> None:
    """Write the values with these numbers, and wait until they are acknowledged."""
    failed: list[KafkaError] = []

    def answered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5})
    for number in numbers:
        value = values[number % PARTITIONS][number // PARTITIONS]
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=answered)
        if number % 10_000 == 0:
            producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0, f"{topic} was not filled within {PATIENCE_S:.0f} s"
    assert not failed, failed[0]


def read_committed(
    bootstrap_servers: str, topic: str, *, partitions: int = PARTITIONS, timeout_s: float = PATIENCE_S
) -> list[list[bytes]]:
    """Return the values that a read_committed consumer sees in each partition, up to its current end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "readers-of-copies",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    unfinished = set(range(partitions))
    deadline = time.monotonic() + timeout_s
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    try:
        while unfinished:
            assert time.monotonic() < deadline, f"{topic} was not read within {timeout_s:.0f} s"
            for message in consumer.consume(10_000, timeout=0.2):
                error, partition, value = message.error(), message.partition(), message.value()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unfinished.discard(partition)
                else:
                    assert isinstance(value, bytes)
                    found[partition].append(value)
    finally:
        consumer.close()
    return found


def _wait_until_copied(process: CopierProcess, more_than: int) -> None:
    """Wait until more than ``more_than`` records are copied, or all. Raises TimeoutError if there is no progress."""
    copied, deadline = process.copied, time.monotonic() + 2 * PATIENCE_S
    while process.copied <= more_than and not process.is_done:
        process.tend()
        if process.copied != copied:
            copied, deadline = process.copied, time.monotonic() + 2 * PATIENCE_S
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.copied} records copied, and too slowly: {process.printed()}")
        time.sleep(0.002)


def _too_old(ages: TransactionAges, timeout_ms: int, sweep_ms_max: int, longest_outage_ms: int) -> list[str]:
    if ages.times_seen == 0:
        return ["no open transaction was ever seen, so nothing is known of how old they got"]
    if ages.oldest_ms <= timeout_ms + sweep_ms_max + longest_outage_ms:
        return []
    told = f"a transaction with a timeout of {timeout_ms} ms was undecided after {ages.oldest_ms} ms"
    return [f"{told}; the broker was never away for longer than {longest_outage_ms} ms"]


def _still_open(server: Killable) -> list[str]:
    """Return the transactions that are still undecided a while after the last commit was answered.

    Markers may be written after the answer, so the check is repeated for some time.
    """
    undecided: dict[str, int] = {}

    def are_decided() -> bool:
        nonlocal undecided
        undecided = undecided_ages_ms(server.bootstrap_servers)
        return not undecided

    with contextlib.suppress(AssertionError):
        wait_until(are_decided, pause_s=0.05)
    return [f"undecided when all was copied: {name}" for name in undecided]
