"""The driver of the campaign over sinks, as a process of its own: ``python -m tools.sink_job FOLDER``.

It uses the pipeline's own start and batches, but substitutes for Spark's checkpoint, rows and workers: the rows of a
batch are its offsets. So a process is ready in a second, and can be killed at every step of a batch hundreds of times.
At the step that ``halt.json`` in its folder names, the driver or a worker writes a file to say that it has arrived, and
waits, like the driver of the campaign on Spark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster
from semel.spark.plan import QueryPlan
from semel.spark.sink.sink import Sink, StepHook
from semel.spark.sinks import BatchSink, Delta, Files, Iceberg, Postgres, SQLite
from semel.spark.sinks.side_sinks import SideSinks
from semel.spark.source.options import SourceOptions
from semel.spark.starting import Start
from semel.types import TopicPartition
from tools.sink_worker import DELTA_FOLDER, WorkerRows, Workers
from tools.spark_job import Halting

TOPIC, OUTPUT, GROUP, TRANSACTIONAL_ID, TABLE = "in", "out", "campaign", "campaign", "numbers"
PARTITION = TopicPartition(TOPIC, 0)
ICEBERG_TABLE = "lake.numbers"

_BATCH_SIZE = 7
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class SinkJob:
    servers: str
    dsn: str

    def write(self, folder: Path) -> None:
        (folder / "job.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> SinkJob:
        return cls(**json.loads((folder / "job.json").read_text()))


class FolderCheckpoint(Checkpoint):
    """A checkpoint with files as Spark writes them, for a query that reads one partition."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self._write("metadata", json.dumps({"id": "the-query"}))

    def _read(self, name: str) -> str | None:
        file = self._folder / name
        return file.read_text() if file.exists() else None

    def _names(self, folder: str) -> list[str]:
        return [path.name for path in (self._folder / folder).iterdir() if path.suffix == ""]

    def _modified_ms(self, name: str) -> int:
        return int((self._folder / name).stat().st_mtime * 1000)

    def end_of(self, batch_id: int) -> int | None:
        """Return the end offset of a batch; ``None`` if the batch is not planned."""
        if batch_id < 0:
            return 0
        ends = self.ends_of(batch_id, ["0"])
        return None if ends is None else ends[0][PARTITION]

    def next_batch_id(self) -> int:
        """Return the number after the last batch in the commit log."""
        return max((int(name) for name in self._names("commits")), default=-1) + 1

    def plan(self, batch_id: int, end: int) -> None:
        """Write the batch to the offset log. Raises ``FileExistsError`` if another driver has planned it, as Spark
        raises an error of its own."""
        self._write(f"offsets/{batch_id}", f"v1\n{{}}\n{json.dumps({TOPIC: {'0': end}})}")

    def finish(self, batch_id: int) -> None:
        with suppress(FileExistsError):
            self._write(f"commits/{batch_id}", "v1\n{}")

    def _write(self, name: str, text: str) -> None:
        """Write a file atomically: it is complete when it appears. Raises ``FileExistsError`` if it exists."""
        draft = self._folder / f"{name}.draft-{os.getpid()}"
        draft.write_text(text)
        try:
            os.link(draft, self._folder / name)
        finally:
            draft.unlink()


def sinks(job: SinkJob, folder: Path, reached: StepHook) -> list[BatchSink]:
    """Return the sinks. Each puts its name into the names of its steps: ``sqlite staged``, ``postgres committed``."""

    def named(kind: str) -> StepHook:
        return lambda point, batch_id: reached(point.replace("sink", kind, 1), batch_id)

    return [
        SQLite(folder / "numbers.db", TABLE, reached=named("sqlite")),
        Files(folder / TABLE, reached=named("files")),
        Delta(folder / DELTA_FOLDER, reached=named("delta")),
        Iceberg(ICEBERG_TABLE, catalog=iceberg_catalog(folder), reached=named("iceberg")),
        Postgres(job.dsn, TABLE, reached=named("postgres")),
    ]


class DriverHalting(Halting):
    """Halts the current driver and its workers. A driver that was left behind, and its workers, are not halted any
    more, because the next kill is for its successor."""

    def __init__(self, folder: Path, driver: int) -> None:
        super().__init__(folder)
        self._left_behind = left_behind(folder, driver)

    def __call__(self, point: str, batch_id: int) -> None:
        if not self._left_behind.exists():
            super().__call__(point, batch_id)


def left_behind(folder: Path, driver: int) -> Path:
    """Return the path of the file that exists if this driver is not the pipeline's current one any more."""
    return folder / f"left-behind-{driver}"


def iceberg_catalog(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def main() -> int:
    folder = Path(sys.argv[1])
    job = SinkJob.read(folder)
    reached = DriverHalting(folder, os.getpid())
    workers = Workers(reached)
    checkpoint = FolderCheckpoint(folder / "checkpoint")
    options = {"kafka.bootstrap.servers": job.servers, "kafka.group.id": GROUP, "subscribe": TOPIC}
    source = SourceOptions.parse({**options, "startingOffsets": "earliest"}, is_streaming=True)
    settings: dict[str, Any] = {
        "bootstrap_servers": job.servers,
        "transactional_id": TRANSACTIONAL_ID,
        "transaction_timeout_ms": 60_000,
    }
    sink = Sink(settings, OUTPUT, None, None, reached)
    written = sinks(job, folder, reached)
    for one in written:
        one.check(rows(0, 0, workers))
    also = SideSinks(written)
    plan = QueryPlan((source,), (), is_stateful=False)
    batches = Start(plan, sink, "checkpoint", ["value"], 1, None, 3, also=also).begin(checkpoint)
    with Cluster(bootstrap_servers=job.servers) as cluster:
        while True:
            batch_id = checkpoint.next_batch_id()
            begin, end = checkpoint.end_of(batch_id - 1) or 0, checkpoint.end_of(batch_id)
            if end is None:
                end = min(cluster.end_offsets([PARTITION])[PARTITION], begin + _BATCH_SIZE)
                if end == begin:
                    time.sleep(_PAUSE_S)
                    continue
                checkpoint.plan(batch_id, end)
            batches(rows(begin, end, workers), batch_id)
            checkpoint.finish(batch_id)


def rows(begin: int, end: int, workers: Workers) -> Any:
    """Return the rows of a batch with these offsets."""
    return WorkerRows(pa.table({"number": pa.array(range(begin, end), pa.int64())}), workers)


if __name__ == "__main__":
    from tools.sink_job import main as importable_main  # So that workers can unpickle DriverHalting by its module name.

    sys.exit(importable_main())
