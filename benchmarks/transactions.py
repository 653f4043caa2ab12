"""Transactions: how many commits a second, and how long one takes from its beginning to the answer to its commit.

Every producer commits one transaction after the other for as long as it is measured. What was committed is compared
with the end offsets afterwards: so many records, and one marker per transaction and partition, and nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Producer as LibrdkafkaProducer

import semel
from benchmarks.event_loop import on_uvloop
from benchmarks.latency import quantile
from benchmarks.measuring import Effort, Measured, Row, Workload
from benchmarks.processors import Watch
from benchmarks.topics import QUIET, end_offsets, fresh_topic
from tools.server import Server

PARTITIONS: Final = 4
RECORD_BYTES: Final = 100

# Before the clock starts: connections, producer ids, the internal topic, and what a just-in-time compiler needs.
UNMEASURED: Final = 50
_VALUE: Final = bytes(RECORD_BYTES)

Load = Callable[[Server, str, int, int, float], tuple[list[float], float]]
"""``(server, topic, producers, records, seconds)`` to the times of all transactions, in ms, and the seconds taken."""

_names = itertools.count()


def transaction_workload(
    load: Load, producers: int, records: int, *, commits: Row, p50: Row, p99: Row, broker_time: Row
) -> Workload:
    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, PARTITIONS) as topic:
            watch = Watch(server)
            taken_ms, elapsed_s = load(server, topic, producers, records, effort.seconds)
            usage = watch.usage()
            broker_s = watch.broker_seconds()
            committed = len(taken_ms) + producers * UNMEASURED
            _check_stored(server, topic, committed * (records + min(records, PARTITIONS)))
        taken_ms.sort()
        return Measured(
            {
                commits.key: len(taken_ms) / elapsed_s,
                p50.key: quantile(taken_ms, 0.5),
                p99.key: quantile(taken_ms, 0.99),
                broker_time.key: broker_s / committed * 1000,
            },
            usage,
        )

    return Workload(commits.title, (commits, p50, p99, broker_time), measure)


def confluent_load(
    server: Server, topic: str, producers: int, records: int, seconds: float
) -> tuple[list[float], float]:
    """librdkafka, through confluent-kafka: one thread for each producer. While it waits it leaves Python to others."""
    started = threading.Barrier(producers + 1)
    results: list[list[float]] = [[] for _ in range(producers)]

    def produce(number: int) -> None:
        producer = LibrdkafkaProducer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "transactional.id": f"bench-{next(_names)}",
                "delivery.report.only.error": True,
                **QUIET,
            }
        )
        producer.init_transactions(30)

        def transaction() -> None:
            producer.begin_transaction()
            for record in range(records):
                producer.produce(topic, _VALUE, None, (number + record) % PARTITIONS)
            producer.commit_transaction(30)

        for _ in range(UNMEASURED):
            transaction()
        started.wait()
        deadline, taken_ms = time.perf_counter() + seconds, results[number]
        before = time.perf_counter()
        while before < deadline:
            transaction()
            after = time.perf_counter()
            taken_ms.append((after - before) * 1000)
            before = after

    threads = [threading.Thread(target=produce, args=(number,), daemon=True) for number in range(producers)]
    for thread in threads:
        thread.start()
    started.wait(120)
    before = time.perf_counter()
    for thread in threads:
        thread.join()
    return list(itertools.chain.from_iterable(results)), time.perf_counter() - before


def semel_load(server: Server, topic: str, producers: int, records: int, seconds: float) -> tuple[list[float], float]:
    """Semel's own producer: all of them in one event loop."""

    async def produce(number: int, begin: asyncio.Barrier) -> list[float]:
        settings: dict[str, Any] = {
            "bootstrap_servers": server.bootstrap_servers,
            "transactional_id": f"bench-{next(_names)}",
        }
        async with semel.Producer(**settings) as producer:

            async def transaction() -> None:
                producer.begin()
                for record in range(records):
                    producer.send(topic, _VALUE, partition=(number + record) % PARTITIONS)
                await producer.commit()

            for _ in range(UNMEASURED):
                await transaction()
            await begin.wait()
            deadline, taken_ms = time.perf_counter() + seconds, []
            before = time.perf_counter()
            while before < deadline:
                await transaction()
                after = time.perf_counter()
                taken_ms.append((after - before) * 1000)
                before = after
            return taken_ms

    async def all_of_them() -> tuple[list[float], float]:
        begin = asyncio.Barrier(producers + 1)
        tasks = [asyncio.create_task(produce(number, begin)) for number in range(producers)]
        async with asyncio.timeout(120):
            await begin.wait()
        before = time.perf_counter()
        results = await asyncio.gather(*tasks)
        return list(itertools.chain.from_iterable(results)), time.perf_counter() - before

    return on_uvloop(all_of_them())


def _check_stored(server: Server, topic: str, wanted: int) -> None:
    """Apache Kafka answers a commit before its markers are written: they are given a moment."""
    deadline = time.monotonic() + 10
    while (stored := sum(end_offsets(server, topic, PARTITIONS))) != wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stored == wanted, f"{wanted} records and markers were committed and {stored} are stored"
