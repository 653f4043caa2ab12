"""``semel pipeline``: checks, runs, recovers and rewinds a Spark pipeline that is described in a file."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
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
    from semel.spark.rewinding import Rewind
    from semel.spark.sinks.side_sinks import SinkProgress

_LOOK_S: Final = 1
_LAG_MS: Final = 3_000


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "pipeline",
        "run a Spark pipeline, exactly once, from a file",
        "  semel pipeline check totals.toml\n  semel pipeline run totals.toml\n  semel pipeline recover totals.toml\n"
        "  semel pipeline rewind totals.toml --to earliest",
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
    recover = add_command(
        family,
        "recover",
        "say what is known if a checkpoint and its group's offsets do not fit; set the offsets when told",
        "  semel pipeline recover totals.toml\n"
        "  semel pipeline recover totals.toml --written\n\n"
        "Without an option nothing is touched. A pipeline that goes on by itself needs none.",
        _recover,
    )
    told = recover.add_mutually_exclusive_group()
    told.add_argument("--written", action="store_true", help="the last batch was written: go on behind it")
    told.add_argument("--not-written", action="store_true", help="the last batch was not written: run it again")
    rewind = add_command(
        family,
        "rewind",
        "begin again elsewhere: say what would be read and written again, ask, and do it",
        "  semel pipeline rewind totals.toml --to earliest\n"
        "  semel pipeline rewind totals.toml --to 2026-01-31T12:00:00Z --yes\n"
        '  semel pipeline rewind totals.toml --to \'{"orders": {"0": 1200, "1": 900}}\'\n\n'
        "The next run begins there, in a new generation: a new checkpoint, and ledgers that know of nothing. A run\n"
        "that still goes on is stopped.",
        _rewind,
    )
    rewind.add_argument(
        "--to",
        metavar="PLACE",
        required=True,
        help="earliest, latest, a time, or the offsets of all partitions as JSON",
    )
    rewind.add_argument("--yes", action="store_true", help="do not ask")
    for parser in (check, run, recover, rewind):
        parser.add_argument("file", metavar="FILE", type=Path, help="what to run, as TOML")
        add_json(parser)


def _check(options: argparse.Namespace) -> int:
    with _errors_in_one_line():
        job, pipeline = _made(options)
        plan = pipeline.check()
        print_facts(
            {
                "reads": [_read_by(source) for source in job.sources.values()],
                "groups": sorted({source.group_id for source in plan.sources if source.group_id is not None}),
                "writes": pipeline.sink.topic or (None if pipeline.also else "what each row says in its column topic"),
                "also": list(pipeline.also.names),
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


def _recover(options: argparse.Namespace) -> int:
    with _errors_in_one_line():
        job, pipeline = _made(options)
        told = True if options.written else False if options.not_written else None
        found = pipeline.recover(is_written=told)
        last = found.last
        print_facts(
            {
                "checkpoint": job.checkpoint,
                "last_batch": last.batch_id,
                "planned": datetime.fromtimestamp(last.planned_ms / 1000).astimezone().isoformat(timespec="seconds"),
                "is_done_for_spark": last.is_done,
                "batch_reads": [
                    f"{place.topic_partition}: {'?' if last.start is None else last.start.get(place, 0)} to {end}"
                    for place, end in last.end.items()
                ],
                "groups_are_at": [f"{tp} of {group_id}: {at.offset}" for (group_id, tp), at in found.committed.items()],
                "known": found.summary,
                **({"if_written": last.if_written, "if_not_written": last.if_not_written} if found.is_needed else {}),
            },
            as_json=options.json,
        )
    return Exit.OK


def _rewind(options: argparse.Namespace) -> int:
    with _errors_in_one_line():
        job, pipeline = _made(options)
        found = pipeline.rewind(options.to)
        if not options.json:
            _print_rewind(found, job.checkpoint, as_json=False)
        if not options.yes and not _confirmed():
            print("nothing was done", file=sys.stderr)
            return Exit.FAILED
        done = pipeline.rewind(options.to, is_confirmed=True)
        if options.json:
            _print_rewind(done, job.checkpoint, as_json=True)
        else:
            print(f"rewound: the next run begins generation {done.generation}")
    return Exit.OK


def _print_rewind(found: Rewind, checkpoint: str, *, as_json: bool) -> None:
    print_facts(
        {
            "partitions": [
                f"{move.partition.topic_partition} of {move.partition.group_id}: {move.committed} to {move.target}"
                for move in found.moves
            ],
            "read_again": found.read_again,
            "left_out": found.left_out,
            "generation": found.generation,
            "checkpoint": found.checkpoint,
            "kept": checkpoint,
            "means": found.warnings or "nothing is read again",
            "is_done": found.is_done,
        },
        as_json=as_json,
    )


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on: say --yes, after a look at what is to be done")
    return input("Do this? [y/N] ").strip().lower() in ("y", "yes")


def _run(options: argparse.Namespace) -> int:
    with _errors_in_one_line():
        _, pipeline = _made(options)
        query = pipeline.start()
        last = -1
        ended = False
        with _without_stop_line(), interruptible() as interruption:
            while not (ended or interruption.was_signalled):
                ended = bool(query.awaitTermination(_LOOK_S))
                batches = [batch for batch in query.recentProgress if batch["batchId"] > last]
                for batch in batches:
                    last = batch["batchId"]
                    # The lag is the present one, so it is printed with the newest batch only.
                    lag = _lag(pipeline) if batch is batches[-1] else None
                    sinks = [one for one in pipeline.sink_progress() if one.batch_id == last]
                    _print_batch(last, batch["numInputRows"], lag, sinks, as_json=options.json)
            if not ended:
                query.stop()
    return Exit.OK


def _lag(pipeline: Pipeline) -> int | None:
    """Return the lag; ``None`` if it cannot be read now.

    The query itself waits for brokers that are away, or says what is wrong; a signal must not wait for them.
    """
    from semel.errors import SemelError
    from semel.spark.progress import total_lag

    try:
        return total_lag(pipeline.progress(timeout_ms=_LAG_MS))
    except (SemelError, LookupError):
        return None


def _print_batch(batch_id: int, rows: int, lag: int | None, sinks: list[SinkProgress], *, as_json: bool) -> None:
    facts = {"batch": batch_id, "rows": rows, "lag": lag}
    known: dict[str, Any] = {name: value for name, value in facts.items() if value is not None}
    if as_json:
        print_json(known | ({"sinks": [asdict(one) for one in sinks]} if sinks else {}))
    else:
        print("  ".join(f"{name} {value}" for name, value in known.items()))
        for one in sinks:
            outcome = "was there already" if one.is_skipped else f"rows {one.row_count}  ms {one.duration_ms}"
            left_out = f"  left out {one.refused_count}" if one.refused_count else ""
            print(f"  {one.sink}  {outcome}{left_out}")
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
    """Turn Spark's log off. Its errors are also raised as exceptions, and printed from those in one line."""
    from pyspark.logger import PySparkLogger

    spark.sparkContext.setLogLevel("OFF")
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


@contextmanager
def _without_stop_line() -> Iterator[None]:
    """Leave out the line that a pipeline logs when it stops: the command ends with the same line."""
    logger = logging.getLogger("semel.spark.batch")

    def is_kept(record: logging.LogRecord) -> bool:
        return record.levelno < logging.ERROR

    logger.addFilter(is_kept)
    try:
        yield
    finally:
        logger.removeFilter(is_kept)


def _read_by(source: Any) -> str:
    names = ("subscribe", "subscribePattern", "assign")
    return next((str(source[name]) for name in names if name in source), "?")


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Turn an exception of Spark or of the pipeline into a ``SemelError`` with one line, so that the command ends with
    that line and not with a traceback."""
    from semel.errors import SemelError

    try:
        yield
    except (UsageError, SemelError, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        from semel.spark.errors import sentence_of

        raise SemelError(sentence_of(error)) from error
