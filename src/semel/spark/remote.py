"""Pipelines with Spark Connect: the caller is a client, and the batches run in a Python process beside the driver.

Neither of them has access to the driver's JVM. So the plan is taken from what the client sends to the server, and the
checkpoint is read as rows. The start happens in the process that runs the batches, when Spark passes it the function
for ``foreachBatch``. That is before the query starts, and so the process that takes over the transactional id is the
one that commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from semel.spark.batch import MicroBatches
from semel.spark.checkpoint import RemoteCheckpoint
from semel.spark.plan import SOURCE_NAME, STATEFUL, QueryPlan
from semel.spark.refusals import Refused
from semel.spark.source.options import SourceOptions
from semel.spark.starting import Start

_ANALYZED: Final = re.compile(r"== Analyzed Logical Plan ==\n(.*?)\n\n== ", re.DOTALL)
_NODE: Final = re.compile(r"^[\s:+|-]*~?(\w+)", re.MULTILINE)


class RemoteBatches:
    """The function for ``foreachBatch``. Pickling it keeps only the ``Start``; unpickling it executes the start."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._batches: MicroBatches | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._batches = self._start.begin(RemoteCheckpoint(SparkSession.active(), self._start.location))

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        assert self._batches is not None, "it is called where it was unpickled"
        self._batches(df, batch_id)


def is_remote(df: DataFrame) -> bool:
    return type(df).__module__.startswith("pyspark.sql.connect")


def plan_of(df: DataFrame) -> QueryPlan:
    return _remote_plan(df) if is_remote(df) else QueryPlan.of(df)


def _remote_plan(df: Any) -> QueryPlan:
    found = _ANALYZED.search(df._explain_string(extended=True))
    names = _NODE.findall(found.group(1)) if found is not None else []
    reads = list(_streaming_reads(df._plan.to_proto(df.sparkSession._client)))
    ours = [read for read in reads if read.data_source.format == SOURCE_NAME]
    if sum(name.startswith("StreamingRelation") for name in names) != len(reads):
        raise Refused(
            "the query reads a view or a table that is a stream, and with Spark Connect its options cannot be seen: "
            'use the DataFrame of spark.readStream.format("semel") itself'
        )
    return QueryPlan(
        sources=tuple(SourceOptions.parse(dict(read.data_source.options), is_streaming=True) for read in ours),
        foreign=tuple(read.data_source.format or "table" for read in reads if read not in ours),
        # A join of two streams keeps state. The plan's text does not say which sides of a join are streams, so any join
        # in a query with several streams counts.
        is_stateful=not STATEFUL.isdisjoint(names) or ("Join" in names and len(reads) > 1),
    )


def _streaming_reads(message: Any) -> Iterator[Any]:
    """Yield all reads of streams in a plan, from left to right: the order in which Spark numbers its sources."""
    if message.DESCRIPTOR.name == "Read" and message.is_streaming:
        yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in [value] if hasattr(value, "DESCRIPTOR") else value:
            yield from _streaming_reads(one)
