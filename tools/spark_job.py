"""The Spark driver of the crash campaign, as a process of its own: ``python -m tools.spark_job FOLDER``.

It copies or counts until it is killed. At the point that ``halt.json`` in its folder names, the driver or a task writes
a file to say that it has arrived, and waits until it is killed, or until another file says that it may continue.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from semel.spark import pipeline, register
from tools.patience import SPARK_PATIENCE_S

SOURCE, SINK, GROUP, TRANSACTIONAL_ID = "in", "out", "campaign", "campaign"
RIVAL_ID = "campaign-rival"
"""The transactional id of a second pipeline with the same group."""

_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Job:
    servers: str
    is_stateful: bool
    writers: int | None
    checkpoint: str
    transactional_id: str = TRANSACTIONAL_ID

    def write(self, folder: Path) -> None:
        (folder / "job.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Job:
        return cls(**json.loads((folder / "job.json").read_text()))


@dataclass(frozen=True, slots=True)
class Halt:
    """A point at which one process waits, once.

    With ``survives`` the process survives the death of its parents, like a process on another machine.
    """

    number: int
    point: str
    survives: bool

    def write(self, folder: Path) -> None:
        draft = folder / "halt.draft"
        draft.write_text(json.dumps(asdict(self)))
        draft.rename(folder / "halt.json")

    @classmethod
    def read(cls, folder: Path) -> Halt | None:
        try:
            return cls(**json.loads((folder / "halt.json").read_text()))
        except FileNotFoundError:
            return None

    def claim(self, folder: Path) -> Path:
        return folder / f"reached-{self.number}"

    def leave(self, folder: Path) -> Path:
        return folder / f"leave-{self.number}"


class Halting:
    """The function that the pipeline calls at every step. It is pickled for the tasks, so it has only a path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, point: str, batch_id: int) -> None:
        halt = Halt.read(self._folder)
        if halt is None or halt.point != point:
            return
        if halt.survives:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            # The file is complete when it appears, so that no process reads half a number.
            draft = self._folder / f"claim-{os.getpid()}"
            draft.write_text(str(os.getpid()))
            os.link(draft, halt.claim(self._folder))
        except FileExistsError:
            return
        deadline = time.monotonic() + SPARK_PATIENCE_S
        while not halt.leave(self._folder).exists() and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)


def local_session(folder: Path) -> SparkSession:
    """Return a Spark session in this process that starts fast, with the data source registered."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def main() -> int:
    folder = Path(sys.argv[1])
    job = Job.read(folder)
    spark = local_session(folder)
    reader = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", job.servers)
        .option("kafka.group.id", GROUP)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
    )
    rows = (reader if job.writers is None else reader.option("minPartitions", job.writers)).load()
    if job.is_stateful:
        counted = rows.groupBy("key").count()
        output = counted.select("key", sf.col("count").cast("string").alias("value"))
    else:
        output = rows.select("key", "value")
    query = pipeline(
        output,
        topic=SINK,
        transactional_id=job.transactional_id,
        servers=job.servers,
        checkpoint=job.checkpoint,
        output_mode="update" if job.is_stateful else "append",
        writers=job.writers,
        reached=Halting(folder),
    ).start()
    query.awaitTermination()
    return 0


if __name__ == "__main__":
    from tools.spark_job import main as importable_main  # So that tasks can unpickle Halting by its module name.

    sys.exit(importable_main())
