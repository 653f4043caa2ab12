"""The sinks of a pipeline beside its topic: checked, prepared, and written before each transaction ends.

The law: when ``write`` returns, every sink has the batch. It is called inside every attempt, before EndTxn.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

from pyspark.sql import DataFrame

from semel.client.values import OffsetAndMetadata
from semel.spark.checkpoint import Checkpoint
from semel.spark.decision import Batch, Note, SourcePartition
from semel.spark.errors import in_one_line
from semel.spark.plan import QueryPlan, nondeterministic_in
from semel.spark.refusals import Refused
from semel.spark.sink.row_partitioning import BadRow
from semel.spark.sinks.ledger import LedgerMismatch, is_written, refusal_at_start
from semel.spark.sinks.protocol import BatchSink, DivertingSink, Owner, SinkBatch, SinkError
from semel.spark.sinks.refused_rows import RefusedRow

log = logging.getLogger(__name__)

_RECENT_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """The result of one batch in one sink. ``is_skipped``: the sink had the batch already. ``refused_count``: how many
    rows it left out."""

    batch_id: int
    sink: str
    row_count: int
    duration_ms: int
    is_skipped: bool
    refused_count: int = 0


class SideSinks:
    def __init__(self, sinks: Sequence[BatchSink] = ()) -> None:
        self._sinks = tuple(sinks)
        self._recent: deque[SinkProgress] = deque(maxlen=_RECENT_MAX)
        self._refused: list[RefusedRow] = []
        self._generation = 0
        self._totals: Counter[tuple[str, str]] = Counter()
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise Refused(f"two sinks of also= are called {repeated[0]!r}: give one of them a name=")

    def __len__(self) -> int:
        return len(self._sinks)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sink.name for sink in self._sinks)

    @property
    def recent(self) -> list[SinkProgress]:
        """The results of the last batches that ran in this process, oldest first."""
        return list(self._recent)

    def metrics(self) -> dict[str, float]:
        """Return totals for each sink since this object was created: batches, rows, rows left out, skipped batches,
        time."""
        return {f"sink.{sink}.{name}": value for (sink, name), value in sorted(self._totals.items())}

    def check(self, rows: DataFrame, *, has_topic: bool) -> None:
        """Check whether the sinks can write such rows. Raises ``Refused``. Nothing is changed."""
        if len(self) + has_topic > 1:
            check_deterministic(rows)
        for sink in self._sinks:
            with _refusing(sink):
                sink.check(rows)

    def prepare(
        self,
        owner: Owner,
        committed: Mapping[SourcePartition, OffsetAndMetadata],
        checkpoint: Checkpoint,
        plan: QueryPlan,
        *,
        diverts: bool = False,
        generation: int = 0,
        vanished: Collection[SourcePartition] = (),
    ) -> None:
        """Prepare every sink, and check that its last batch fits the group's committed offsets. Raises ``Refused``.

        It is called after the take-over. ``committed`` are the offsets that were read after it. ``diverts``: there is a
        dead-letter topic for rows that a sink refuses. ``generation`` is the group's. ``vanished`` are partitions that
        the query does not read any more.
        """
        self._generation = generation
        if not self._sinks:
            return
        for sink in self._sinks:
            if diverts and isinstance(sink, DivertingSink):
                sink.divert()
        planned = _planned(checkpoint, plan, generation, vanished)
        notes = [Note.parse(at.metadata) for at in committed.values()]
        noted = {name for note in notes if note is not None for name in note.sinks}
        offsets = {partition: at.offset for partition, at in committed.items()}
        for sink in self._sinks:
            with _refusing(sink):
                sink.prepare(owner)
                last = sink.last_batch()
            is_noted = sink.name in noted
            refusal = refusal_at_start(sink.name, last, offsets, planned, is_noted=is_noted, generation=generation)
            if refusal is not None:
                raise Refused(refusal)

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        """Write the batch to every sink that does not have it yet. Returns whether there was one: if not, the rows were
        not computed.

        Raises ``SinkFenced``, ``BadRow`` or ``LedgerMismatch`` if another attempt would fail in the same way, else
        ``SinkError``.
        """
        self._refused = []
        written = [self._write(sink, rows, batch) for sink in self._sinks]
        return any(written)

    @property
    def refused_rows(self) -> list[RefusedRow]:
        """The rows that the sinks have left out of the last batch, whether in this attempt or in an earlier one."""
        return self._refused

    def _write(self, sink: BatchSink, rows: DataFrame, batch: Batch) -> bool:
        begun = monotonic()
        try:
            has = is_written(sink.name, sink.last_batch(), batch, generation=self._generation)
            line = SinkBatch(batch.query_id, batch.batch_id, dict(batch.end), self._generation)
            row_count = 0 if has else sink.write(rows, line)
            refused = list(sink.refused_rows()) if isinstance(sink, DivertingSink) else []
        except (SinkError, BadRow, LedgerMismatch):
            raise
        except Exception as error:
            raise SinkError(f"{sink.name} did not take batch {batch.batch_id}: {in_one_line(error)}") from error
        duration_ms = int((monotonic() - begun) * 1000)
        self._refused += refused
        self._count(SinkProgress(batch.batch_id, sink.name, row_count, duration_ms, has, len(refused)))
        if refused:
            log.warning("batch %d: %s left out %d rows: %s", batch.batch_id, sink.name, len(refused), refused[0].reason)
        if has:
            log.info("batch %d: %s has it already", batch.batch_id, sink.name)
        else:
            log.info("batch %d: %s took %d rows in %d ms", batch.batch_id, sink.name, row_count, duration_ms)
        return not has

    def _count(self, done: SinkProgress) -> None:
        self._recent.append(done)
        self._totals.update(
            {
                (done.sink, "batches-total"): 1,
                (done.sink, "rows-total"): done.row_count,
                (done.sink, "refused-rows-total"): 0 if done.is_skipped else done.refused_count,
                (done.sink, "skipped-batches-total"): int(done.is_skipped),
                (done.sink, "write-time-ms-total"): done.duration_ms,
            }
        )


@contextmanager
def _refusing(sink: BatchSink) -> Iterator[None]:
    """Turn any exception of a sink within this block into ``Refused``: it is raised before the query starts."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{sink.name}: {in_one_line(error)}") from error


@contextmanager
def computed_once(rows: DataFrame) -> Iterator[None]:
    """Persist the rows within this block, so that all outputs get the same rows and they are computed once."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def check_deterministic(rows: DataFrame) -> None:
    """Raises ``Refused`` if Spark marks the query as not deterministic: the same input may give different rows."""
    root = rows._jdf.queryExecution().analyzed()
    if not root.deterministic():
        raise Refused(
            f"the query is not deterministic, by {', '.join(nondeterministic_in(root))}: after a crash its outputs "
            "would get other rows of the same batch. For a stable id, use topic, partition and offset of the source"
        )


def _planned(
    checkpoint: Checkpoint, plan: QueryPlan, generation: int, vanished: Collection[SourcePartition]
) -> SinkBatch | None:
    """Return the last batch that the checkpoint planned; ``None`` if there is none."""
    batch_id = checkpoint.last_batch_id()
    ends = None if batch_id is None else checkpoint.ends_of(batch_id, plan.source_ids)
    if batch_id is None or ends is None:
        return None
    end = {partition: at for partition, at in plan.source_offsets(ends).items() if partition not in vanished}
    return SinkBatch(checkpoint.query_id() or "", batch_id, end, generation)
