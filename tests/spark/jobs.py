"""Pipelines as tests run them: all that is there, then stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from semel.spark import pipeline
from semel.spark.sink.sink import StepHook
from semel.testing import Broker


def source(
    spark: SparkSession, broker: Broker, topic: str = "in", *, named: str | None = None, **options: Any
) -> DataFrame:
    """``named``: what the query calls it."""
    reader = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("kafka.group.id", "jobs")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    if named is not None:
        reader = reader.name(named)
    return reader.load()


def copied(df: DataFrame) -> DataFrame:
    return df.select("key", "value")


def run(df: DataFrame, broker: Broker, checkpoint: Path, **changes: Any) -> list[dict[str, Any]]:
    """What the query reports of its batches. Raises what it ended with."""
    chosen = {
        "topic": "out",
        "transactional_id": "jobs",
        "servers": broker.bootstrap_servers,
        "checkpoint": str(checkpoint),
        "trigger": {"availableNow": True},
        **changes,
    }
    query = pipeline(df, **chosen).start()
    query.awaitTermination()
    return [dict(progress) for progress in query.recentProgress]


def tasks_of_jobs(spark: SparkSession, batches: list[dict[str, Any]]) -> list[list[int]]:
    """For each job that a query ran, how many tasks each of its stages had."""
    tracker = spark.sparkContext.statusTracker()
    (run_id,) = {str(batch["runId"]) for batch in batches}
    jobs = [tracker.getJobInfo(job_id) for job_id in sorted(tracker.getJobIdsForGroup(run_id))]
    stages = [[tracker.getStageInfo(stage_id) for stage_id in sorted(job.stageIds)] for job in jobs if job is not None]
    return [[stage.numTasks for stage in found if stage is not None] for found in stages]


def fails_at(point: str, batch_id: int) -> StepHook:
    """The driver gives up there, as with any error of its own."""

    def reached(name: str, number: int) -> None:
        if (name, number) == (point, batch_id):
            raise RuntimeError(f"failed at {point!r} of batch {batch_id}")

    return reached


def once(marker: Path, point: str, act: Callable[[], None]) -> StepHook:
    """In a task: the first one that gets there. ``marker`` remembers that one did, whichever process it was."""

    def reached(name: str, number: int) -> None:
        if name == point:
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                return
            act()

    return reached


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
