"""The driver of the campaign over sinks, as a process of its own: ``python -m tools.sink_job FOLDER``.

It is the pipeline's own start and batches, with a checkpoint and rows that are made here: what a batch reads is its
offsets. So a process is ready in a second, and every step of a batch can be killed hundreds of times. Wherever the plan
in its folder says so it claims that it has arrived and waits, as the driver of the campaign on Spark does.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster
from semel.spark.plan import QueryPlan
from semel.spark.sink.sink import Reached, Sink
from semel.spark.sinks import BatchSink, Delta, Files, Iceberg, Postgres, SQLite
from semel.spark.sinks.other_sinks import OtherSinks
from semel.spark.source.options import SourceOptions
from semel.spark.starting import Start
from semel.types import TopicPartition
from tests.rows_without_spark import Rows
from tools.spark_job import Halting

TOPIC, GROUP, TRANSACTIONAL_ID, TABLE = "in", "campaign", "campaign", "numbers"
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
    """Files as Spark writes them, for a query that reads one partition."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (folder / "metadata").exists():
            self._write("metadata", json.dumps({"id": "the-query"}))

    def _read(self, name: str) -> str | None:
        file = self._folder / name
        return file.read_text() if file.exists() else None

    def _names(self, folder: str) -> list[str]:
        return [path.name for path in (self._folder / folder).iterdir() if path.suffix == ""]

    def _modified_ms(self, name: str) -> int:
        return int((self._folder / name).stat().st_mtime * 1000)

    def end_of(self, batch_id: int) -> int | None:
        """``None`` if the batch is not planned."""
        if batch_id < 0:
            return 0
        ends = self.ends_of(batch_id, ["0"])
        return None if ends is None else ends[0][PARTITION]

    def next_batch_id(self) -> int:
        """The one after the last that is in the commit log."""
        return max((int(name) for name in self._names("commits")), default=-1) + 1

    def plan(self, batch_id: int, end: int) -> None:
        self._write(f"offsets/{batch_id}", f"v1\n{{}}\n{json.dumps({TOPIC: {'0': end}})}")

    def finish(self, batch_id: int) -> None:
        self._write(f"commits/{batch_id}", "v1\n{}")

    def _write(self, name: str, text: str) -> None:
        draft = self._folder / f"{name}.draft"
        draft.write_text(text)
        draft.rename(self._folder / name)


def sinks(job: SinkJob, folder: Path, reached: Reached) -> list[BatchSink]:
    """Each names its own steps: ``sqlite staged``, ``postgres committed``."""

    def named(kind: str) -> Reached:
        return lambda point, batch_id: reached(point.replace("sink", kind, 1), batch_id)

    return [
        SQLite(folder / "numbers.db", TABLE, reached=named("sqlite")),
        Files(folder / TABLE, reached=named("files")),
        Delta(folder / "delta", reached=named("delta")),
        Iceberg(ICEBERG_TABLE, catalog=iceberg_catalog(folder), reached=named("iceberg")),
        Postgres(job.dsn, TABLE, reached=named("postgres")),
    ]


def iceberg_catalog(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def main() -> int:
    folder = Path(sys.argv[1])
    job = SinkJob.read(folder)
    reached = Halting(folder)
    checkpoint = FolderCheckpoint(folder / "checkpoint")
    options = {"kafka.bootstrap.servers": job.servers, "kafka.group.id": GROUP, "subscribe": TOPIC}
    source = SourceOptions.parse({**options, "startingOffsets": "earliest"}, is_streaming=True)
    settings: dict[str, Any] = {
        "bootstrap_servers": job.servers,
        "transactional_id": TRANSACTIONAL_ID,
        "transaction_timeout_ms": 60_000,
    }
    sink = Sink(settings, None, None, None, reached)
    written = sinks(job, folder, reached)
    for one in written:
        one.check(rows(0, 0))
    also = OtherSinks(written)
    batches = Start(QueryPlan((source,), (), False), sink, "checkpoint", [], 1, None, 3, also=also).begin(checkpoint)
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
            batches(rows(begin, end), batch_id)
            checkpoint.finish(batch_id)


def rows(begin: int, end: int) -> Any:
    """What a query would make of these offsets."""
    return Rows(pa.table({"number": pa.array(range(begin, end), pa.int64())}))


if __name__ == "__main__":
    sys.exit(main())
