"""Substitutes for Spark's workers in the campaign over sinks: processes that run tasks and are killed during one.

The tasks are the product's own functions; Spark's part is done here. If a worker dies, another one runs its task again,
except in a barrier stage, whose job fails. A worker survives a driver that is killed, and continues with its task.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException

from semel.spark.sink.sink import StepHook
from semel.spark.sinks.files import WriteParts
from semel.spark.sinks.iceberg import WriteTo
from semel.spark.sinks.postgres import CopyRows
from tools.rows_without_spark import Function, Mapped, Rows

DELTA_FOLDER = "delta"
"""The folder by which tasks of the Delta sink are distinguished from those of Files, which are otherwise alike."""

# Small, so that every task has several Arrow batches and can be halted between them.
_ROWS_AT_ONCE = 2
_TIMES = 4
"""How often Spark runs a task whose workers are lost."""
_OF_THE_TOPIC = "spark_partition_id() AS task"


class WorkerLost(PySparkException):
    """The process of a task has died."""


class Workers:
    """Runs tasks in one process, which is started with the first task, and again after it has died."""

    def __init__(self, reached: StepHook) -> None:
        self._reached = reached
        self._running: tuple[BaseProcess, Connection] | None = None

    def run(self, function: Function, batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
        if self._running is None:
            self._running = _started(self._reached)
        process, connection = self._running
        try:
            connection.send(_Task(function, batches))
            answer: _Answer = connection.recv()
        except (EOFError, OSError):
            self._running = None
            process.join()
            raise WorkerLost("the worker of a task is lost") from None
        if answer.error is not None:
            raise PySparkException(answer.error)
        return answer.rows


class WorkerRows(Rows):
    """The numbers of a batch, as the rows of a query. Functions on them run in a worker."""

    def __init__(self, table: pa.Table, workers: Workers) -> None:
        super().__init__(table)
        self._workers = workers

    @property
    def sparkSession(self) -> Any:  # noqa: N802 (Spark's name)
        return _Session()

    def selectExpr(self, *expressions: str) -> Rows:  # noqa: N802
        if _OF_THE_TOPIC in expressions:
            return WorkerRows(_for_the_topic(self._table), self._workers)
        return WorkerRows(super().selectExpr(*expressions).toArrow(), self._workers)

    def repartition(self, count: int) -> Rows:
        assert count == 1, "a batch of the campaign has one writer"
        found = WorkerRows(self._table, self._workers)
        found._part_count = count
        return found

    def mapInArrow(self, function: Function, schema: object, barrier: bool = False) -> Mapped:  # noqa: N802
        found: list[dict[str, Any]] = []
        for part in self._parts():
            found += self._run(function, part, times=1 if barrier else _TIMES)
        return Mapped(found)

    def _run(self, function: Function, part: pa.Table, *, times: int) -> list[dict[str, Any]]:
        batches = part.to_batches(max_chunksize=_ROWS_AT_ONCE)
        for _ in range(times - 1):
            try:
                return self._workers.run(function, batches)
            except WorkerLost:
                continue
        return self._workers.run(function, batches)


@dataclass(frozen=True, slots=True)
class _Task:
    function: Function
    batches: list[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class _Answer:
    rows: list[dict[str, Any]]
    error: str | None = None


class _Session:
    """The part of a Spark session that a barrier stage uses: its settings, to turn adaptive execution off."""

    def __init__(self) -> None:
        self.conf = _Conf()


class _Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


def _for_the_topic(table: pa.Table) -> pa.Table:
    """Return the columns of the topic's sink, which Spark would make with ``sink_columns``."""
    values = pa.array([b"%d" % number for number in table.column("number").to_pylist()], pa.binary())
    keys, tasks = pa.nulls(len(values), pa.binary()), pa.array([0] * len(values), pa.int32())
    return pa.table({"value": values, "key": keys, "task": tasks})


def _started(reached: StepHook) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, reached), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _work(connection: Connection, reached: StepHook) -> None:
    """Run tasks until the driver's process has ended. The main function of a worker's process."""
    while True:
        try:
            task: _Task = connection.recv()
            connection.send(_done(task, reached))
        except (EOFError, OSError):
            return


def _done(task: _Task, reached: StepHook) -> _Answer:
    try:
        found: list[dict[str, Any]] = []
        for answer in task.function(_halting(task, reached)):
            found += answer.to_pylist()
        _reach("copied", task, reached)
        return _Answer(found)
    except Exception:
        return _Answer([], traceback.format_exc())


def _halting(task: _Task, reached: StepHook) -> Iterator[pa.RecordBatch]:
    """Yield the Arrow batches of a task, and reach the step ``copying`` after the first of them."""
    for number, rows in enumerate(task.batches):
        if number == 1:
            _reach("copying", task, reached)
        yield rows


def _reach(step: str, task: _Task, reached: StepHook) -> None:
    """Reach a step of a task, named after its sink: ``postgres copying``. The topic's task has steps of its own."""
    match task.function:
        case CopyRows():
            reached(f"postgres {step}", 0)
        case WriteTo():
            reached(f"iceberg {step}", 0)
        case WriteParts(folder):
            reached(f"{'delta' if folder.endswith(DELTA_FOLDER) else 'files'} {step}", 0)
