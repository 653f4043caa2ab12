"""What is measured of a connector: rows a second, the time that a batch takes however small it is, and the way through.

The first two are Spark's own figures: what it says each batch took, from its trigger to its commit. The third is taken
outside: from sending a record to reading its copy, committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.latency import quantile
from benchmarks.spark.data import PARTITIONS, Trickle, fill
from benchmarks.spark.queries import COPY, FUSED, WINDOWED, Query
from benchmarks.spark.session import Session
from benchmarks.topics import end_offsets, fresh_topic
from tools.server import Server

BATCHES: Final = 4
"""Of a measurement of throughput. The first of them is not counted: it starts the tasks' processes."""

_SMALL_ROWS: Final = 500
_SMALL_BATCHES: Final = 24
_UNCOUNTED: Final = 8
_PER_SECOND: Final = 100

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class SparkRow:
    """``aim``: how many times Spark's own connector. ``excess_max``: how much more than it, at most."""

    key: str
    title: str
    unit: str
    higher_is_better: bool = True
    aim: float | None = None
    excess_max: float | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    rows: int
    latency_seconds: float
    rounds: int


FULL = Amount(rows=3_000_000, latency_seconds=20.0, rounds=2)
QUICK = Amount(rows=100_000, latency_seconds=5.0, rounds=1)

Measure = Callable[[Session], dict[str, float]]


@dataclass(frozen=True, slots=True)
class SparkWorkload:
    """``prepare(server, topic, amount)`` once for all sessions; ``measure`` for each of them, in turn."""

    rows: tuple[SparkRow, ...]
    prepare: Callable[[Server, str, Amount], None]
    measure: Callable[[Session, Server, str, Path, Amount], dict[str, float]]


def throughput(kind: str, record_bytes: int, row: SparkRow, processor: SparkRow) -> SparkWorkload:
    def prepare(server: Server, topic: str, amount: Amount) -> None:
        fill(server, topic, records=_count(amount), record_bytes=record_bytes)

    def measure(session: Session, server: Server, topic: str, folder: Path, amount: Amount) -> dict[str, float]:
        with fresh_topic(server, PARTITIONS) as sink:
            query = _query(kind, server, topic, sink, folder, -(-_count(amount) // BATCHES))
            before_s = session.cpu_seconds() + server.cpu_seconds()
            batches = session.run(query)
            used_s = session.cpu_seconds() + server.cpu_seconds() - before_s
            read, stored = sum(batch["rows"] for batch in batches), sum(end_offsets(server, sink, PARTITIONS))
        assert read == _count(amount), f"{session.name} read {read} of {_count(amount)} rows"
        # What is stored has a marker for each transaction and partition.
        markers_max = len(batches) * PARTITIONS
        assert kind == WINDOWED or read <= stored <= read + markers_max, f"{session.name} wrote {stored} of {read} rows"
        counted = batches[1:]
        seconds = sum(batch["ms"]["triggerExecution"] for batch in counted) / 1000
        return {row.key: sum(batch["rows"] for batch in counted) / seconds, processor.key: used_s / read * 1e6}

    def _count(amount: Amount) -> int:
        return amount.rows * 100 // max(record_bytes, 100) * (2 if record_bytes > 100 else 1)

    return SparkWorkload((row, processor), prepare, measure)


def fixed_time(row: SparkRow) -> SparkWorkload:
    def prepare(server: Server, topic: str, amount: Amount) -> None:
        fill(server, topic, records=_SMALL_ROWS * (_SMALL_BATCHES + _UNCOUNTED), record_bytes=100)

    def measure(session: Session, server: Server, topic: str, folder: Path, amount: Amount) -> dict[str, float]:
        with fresh_topic(server, PARTITIONS) as sink:
            batches = session.run(_query(COPY, server, topic, sink, folder, _SMALL_ROWS))
        return {row.key: median(batch["ms"]["triggerExecution"] for batch in batches[_UNCOUNTED:])}

    return SparkWorkload((row,), prepare, measure)


def way_through(p50: SparkRow, p99: SparkRow) -> SparkWorkload:
    def measure(session: Session, server: Server, topic: str, folder: Path, amount: Amount) -> dict[str, float]:
        with fresh_topic(server, PARTITIONS) as source, fresh_topic(server, PARTITIONS) as sink:
            session.run(_query(COPY, server, source, sink, folder, None))
            trickle = Trickle(server, source, sink)
            try:
                trickle.latencies_ms(per_second=_PER_SECOND, seconds=amount.latency_seconds / 4)  # To warm up.
                taken = sorted(trickle.latencies_ms(per_second=_PER_SECOND, seconds=amount.latency_seconds))
            finally:
                trickle.close()
                session.stop()
        return {p50.key: quantile(taken, 0.5), p99.key: quantile(taken, 0.99)}

    return SparkWorkload((p50, p99), lambda server, topic, amount: None, measure)


def _query(kind: str, server: Server, source: str, sink: str, folder: Path, rows_per_batch: int | None) -> Query:
    checkpoint = folder / f"checkpoint-{next(_numbers)}"
    return Query(kind, server.bootstrap_servers, source, sink, str(checkpoint), rows_per_batch)


def _throughputs(kind: str, title: str, *, aim: float = 1.0) -> list[SparkWorkload]:
    return [
        throughput(
            kind,
            size,
            SparkRow(f"{kind}-{size}", f"{title}, {words} records", "rows/s", aim=aim),
            SparkRow(
                f"{kind}-{size}-cpu", "... processor time of Spark and broker", "s/M rows", higher_is_better=False
            ),
        )
        for size, words in ((100, "100 B"), (1000, "1 KB"))
    ]


WORKLOADS: Final = (
    *_throughputs(COPY, "copy"),
    *_throughputs(FUSED, "copy with arrow=", aim=3.0),
    *_throughputs(WINDOWED, "count by key and window"),
    fixed_time(
        SparkRow("batch", f"one micro-batch of {_SMALL_ROWS} rows", "ms", higher_is_better=False, excess_max=60.0)
    ),
    way_through(
        SparkRow("latency-p50", f"end to end at {_PER_SECOND}/s, p50", "ms", higher_is_better=False),
        SparkRow("latency-p99", f"end to end at {_PER_SECOND}/s, p99", "ms", higher_is_better=False),
    ),
)
