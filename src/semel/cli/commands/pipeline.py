"""``semel pipeline``: run a Spark pipeline from a file, or say what it would run."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.parsing import Subcommands, add_command, add_family, add_json
from semel.cli.terminal.interruption import interruptible
from semel.cli.terminal.output import print_facts, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from semel.spark import Pipeline
    from semel.spark.job import PipelineJob

_LOOK_S: Final = 1
# An error of ours, as Spark quotes it among the tracebacks of Python and Java.
_OURS: Final = re.compile(r"semel\.(?:spark\.\w+|errors)\.\w+: (?P<text>.+)")


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "pipeline",
        "run a Spark pipeline, exactly once, from a file",
        "  semel pipeline check totals.toml\n  semel pipeline run totals.toml",
    )
    check = add_command(
        family,
        "check",
        "say what would run, or why it would be refused; nothing is touched",
        "  semel pipeline check totals.toml\n  semel pipeline check totals.toml --json",
        _check,
    )
    run = add_command(
        family,
        "run",
        "run until the trigger is done, or until Ctrl-C or SIGTERM",
        "  semel pipeline run totals.toml\n"
        "  semel pipeline run totals.toml --available-now\n\n"
        "The file names sources, SQL, a sink and settings: docs/spark.md says how. Every batch is a line. However\n"
        "it ends, the same command goes on where it was.",
        _run,
    )
    run.add_argument("--available-now", action="store_true", help="read what is there, then stop; wins over the file")
    for parser in (check, run):
        parser.add_argument("file", metavar="FILE", type=Path, help="what to run, as TOML")
        add_json(parser)


def _check(options: argparse.Namespace) -> int:
    with _told_in_a_sentence():
        job, pipeline = _made(options)
        plan = pipeline.check()
        print_facts(
            {
                "reads": [_read_by(source) for source in job.sources.values()],
                "groups": sorted({source.group_id for source in plan.sources if source.group_id is not None}),
                "writes": pipeline.sink.topic or "what each row says in its column topic",
                "dead_letters": pipeline.sink.dead_letter_topic,
                "columns": pipeline.df.columns,
                "is_stateful": plan.is_stateful,
                "transactional_id": job.transactional_id,
                "checkpoint": job.checkpoint,
                "trigger": [f"{name}={value}" for name, value in pipeline.trigger.items()] or "as fast as it can",
                "brokers": job.servers,
            },
            as_json=options.json,
        )
    return Exit.OK


def _run(options: argparse.Namespace) -> int:
    with _told_in_a_sentence():
        _, pipeline = _made(options)
        from semel.spark.progress import total_lag

        query = pipeline.start()
        last = -1
        ended = False
        with interruptible() as interruption:
            while not (ended or interruption.told):
                ended = bool(query.awaitTermination(_LOOK_S))
                batches = [batch for batch in query.recentProgress if batch["batchId"] > last]
                for batch in batches:
                    last = batch["batchId"]
                    # The lag is as of now: it belongs to the newest batch.
                    lag = total_lag(pipeline.progress()) if batch is batches[-1] else None
                    _print_batch(last, batch["numInputRows"], lag, as_json=options.json)
            if not ended:
                query.stop()
    return Exit.OK


def _print_batch(batch_id: int, rows: int, lag: int | None, *, as_json: bool) -> None:
    facts = {"batch": batch_id, "rows": rows, "lag": lag}
    known = {name: value for name, value in facts.items() if value is not None}
    if as_json:
        print_json(known)
    else:
        print("  ".join(f"{name} {value}" for name, value in known.items()))
    sys.stdout.flush()


def _made(options: argparse.Namespace) -> tuple[PipelineJob, Pipeline]:
    try:
        from semel.spark.java import NoJava, use_java
        from semel.spark.job import JobError, PipelineJob
    except ImportError as error:
        raise UsageError(f"a pipeline needs Spark, and {error.name} is not here: pip install 'semel[spark]'") from None
    try:
        job = PipelineJob.read(options.file)
        if getattr(options, "available_now", False):
            job = job.available_now()
    except JobError as error:
        raise UsageError(f"{options.file}: {error}") from None
    try:
        use_java()
    except NoJava as error:
        raise UsageError(str(error)) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = job.session()
    _silence(spark)
    return job, job.pipeline(spark)


def _silence(spark: SparkSession) -> None:
    """What matters of Spark's log is raised as well, and told in a sentence."""
    from pyspark.logger import PySparkLogger

    spark.sparkContext.setLogLevel("OFF")
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _read_by(source: Any) -> str:
    names = ("subscribe", "subscribePattern", "assign")
    return next((str(source[name]) for name in names if name in source), "?")


@contextmanager
def _told_in_a_sentence() -> Iterator[None]:
    """What Spark or the pipeline raised ends the command with its first sentence instead of its traceback."""
    from semel.errors import SemelError

    try:
        yield
    except (UsageError, SemelError, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        raise SemelError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    found = _OURS.search(str(error))
    if found is not None:
        return found["text"]
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
