"""One micro-batch as one transaction: decide, write, send offsets, commit. After a failure it is tried again under a
new epoch.

The law: two attempts never share an epoch, and nothing is tried again once another driver has taken over the
transactional id.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import time
from typing import Final, assert_never

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from semel.blocking import Producer
from semel.client.machine.producer.sequences import TRANSACTIONS_V2
from semel.client.values import OffsetAndMetadata, ProducerIdentity
from semel.errors import AbortableError, FatalError, ProducerFenced, TimedOut
from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster
from semel.spark.decision import Batch, Note, Place, Run, Skip, Stop, begins, decide
from semel.spark.plan import QueryPlan
from semel.spark.sink.fused import Transform, write_fused
from semel.spark.sink.row_partitioning import BadRow
from semel.spark.sink.sink import Sink, WriteJob
from semel.spark.sink.stage import write_rows
from semel.spark.source.offsets import Offsets

log = logging.getLogger(__name__)

_COMMIT_ATTEMPTS: Final = 5
# Up to here one task writes them sooner than several would: placing them first takes a task of its own.
_LONE_ROWS_MAX: Final = 10_000
# What Spark says of a job that was cancelled on purpose, as query.stop() does.
_CANCELLED: Final = ("SPARK_JOB_CANCELLED", "cancelled because", "InterruptedException", "SparkContext was shut down")


class PipelineError(RuntimeError):
    """The pipeline stops. Nothing of the batch was committed, unless the message says so."""


class Superseded(PipelineError):
    """Another driver has taken over the transactional id and continues the query; this driver must stop."""


class MicroBatches:
    """The function for ``foreachBatch``. ``committed`` is C: read after the take-over, then kept here."""

    def __init__(
        self,
        *,
        plan: QueryPlan,
        sink: Sink,
        owner: Producer,
        cluster: Cluster,
        checkpoint: Checkpoint,
        committed: Mapping[Place, OffsetAndMetadata],
        columns: list[str],
        slots: int,
        writers: int | None,
        attempts: int,
        arrow: Transform | None = None,
    ) -> None:
        self._arrow = arrow
        self._plan = plan
        self._sink = sink
        self._owner = owner
        self._cluster = cluster
        self._checkpoint = checkpoint
        self._committed = dict(committed)
        self._columns = columns
        self._slots = slots
        self._writers = writers
        self._attempts = attempts
        self._query_id: str | None = None
        self._ends: tuple[int, list[Offsets]] | None = None
        self._rows_before = 0

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        batch = self._planned(batch_id)
        self._sink.reached("planned", batch_id)
        decision = decide(batch, self._committed)
        match decision:
            case Skip():
                log.info("batch %d is committed already: nothing is written", batch_id)
                if self._plan.is_stateful:
                    df.write.format("noop").mode("overwrite").save()
            case Stop(reason):
                raise PipelineError(reason)
            case Run():
                self._run(df, batch)
            case _:
                assert_never(decision)
        self._sink.reached("done", batch_id)

    def close(self, *, timeout_ms: int) -> None:
        """End what is open. Waits at most so long for the brokers."""
        self._owner.close(timeout_ms=timeout_ms)
        self._cluster.close()

    # What the batch is

    def _planned(self, batch_id: int) -> Batch:
        if self._query_id is None:
            self._query_id = self._checkpoint.query_id() or ""
        before = self._ends_of(batch_id - 1, "where it begins") if batch_id > 0 else None
        ends = self._ends_of(batch_id, "which is to be run")
        self._ends = (batch_id, ends)
        start = begins(self._committed) if before is None else self._places(before)
        return Batch(self._query_id, batch_id, start, self._places(ends))

    def _ends_of(self, batch_id: int, why: str) -> list[Offsets]:
        if self._ends is not None and self._ends[0] == batch_id:
            return self._ends[1]
        ends = self._checkpoint.ends_of(batch_id, len(self._plan.sources))
        if ends is None:
            raise PipelineError(f"{self._checkpoint.location} has no offsets of batch {batch_id}, {why}")
        return ends

    def _places(self, ends: list[Offsets]) -> dict[Place, int]:
        return {
            Place(source.group_id or "", topic_partition): offset
            for source, offsets in zip(self._plan.sources, ends, strict=True)
            for topic_partition, offset in offsets.items()
        }

    # Running it

    def _run(self, df: DataFrame, batch: Batch) -> None:
        try:
            for attempt in range(1, self._attempts + 1):
                if self._attempt(df, batch, is_last=attempt == self._attempts):
                    return
                log.warning("batch %d failed at attempt %d of %d", batch.batch_id, attempt, self._attempts)
        except ProducerFenced as error:
            raise Superseded(
                f"batch {batch.batch_id}: another driver has taken over the transactional id "
                f"{self._sink.settings['transactional_id']!r}, or the batch took longer than its transaction may "
                f"({error}). Nothing more is written by this one"
            ) from error
        except FatalError as error:
            raise PipelineError(f"batch {batch.batch_id} cannot be committed: {error}") from error

    def _attempt(self, df: DataFrame, batch: Batch, *, is_last: bool) -> bool:
        """Whether it worked. Raises what is final, or the last."""
        identity = self._begin()
        try:
            self._transact(df, batch, identity)
            return True
        except FatalError:
            raise
        except (AbortableError, PySparkException, Py4JError) as error:
            self._give_up(identity)
            if is_last or _is_final(error):
                raise
            log.warning("batch %d: %s", batch.batch_id, error)
            return False
        except BaseException:
            self._give_up(identity)
            raise

    def _begin(self) -> ProducerIdentity:
        if self._owner.identity.transaction_version < TRANSACTIONS_V2:
            self._owner.bump_epoch()  # V2 does it with every end of a transaction.
        self._owner.begin()
        return self._owner.identity

    def _give_up(self, identity: ProducerIdentity) -> None:
        self._owner.abort()
        # A transaction without records ends without a new epoch; but a task may still be about to write.
        if self._owner.identity == identity:
            self._owner.bump_epoch()

    def _transact(self, df: DataFrame, batch: Batch, identity: ProducerIdentity) -> None:
        reached = self._sink.reached
        reached("begun", batch.batch_id)
        written = self._write(df, batch, identity)
        reached("written", batch.batch_id)
        if not written and batch.is_empty:
            self._owner.abort()
            return
        # Where batch 0 began is needed for as long as Spark may run it again: until batch 1 is planned.
        first = batch.start if batch.batch_id == 0 else {}
        offsets = {
            place: OffsetAndMetadata(offset, str(Note(batch.query_id, batch.batch_id, first.get(place))))
            for place, offset in batch.end.items()
        }
        for group_id in sorted({place.group_id for place in offsets}):
            own = {place.topic_partition: at for place, at in offsets.items() if place.group_id == group_id}
            self._owner.send_offsets(own, group_id)
        reached("offsets sent", batch.batch_id)
        self._commit()
        self._committed.update(offsets)
        reached("committed", batch.batch_id)

    def _write(self, df: DataFrame, batch: Batch, identity: ProducerIdentity) -> list[Row]:
        """The barrier stage. A new DataFrame each time: one whose job failed once fails always."""
        counts = {}
        if self._sink.topic is not None:
            counts = dict(self._cluster.topics([self._sink.topic]).partition_counts)
        writers = self._writers_of(batch, sum(counts.values()))
        job = WriteJob(self._sink, identity, batch.batch_id, int(time() * 1000), writers, counts)
        if self._arrow is not None:
            return write_fused(df.sparkSession, job, self._arrow, self._plan.sources[0], batch, self._cluster)
        written = write_rows(df, self._columns, job)
        self._rows_before = sum(row["records"] for row in written)
        return written

    def _writers_of(self, batch: Batch, partitions: int) -> int:
        """How many write: as many as were asked for, else one if the batch is small by all that is known of it."""
        is_small = max(batch.offset_count, self._rows_before) <= _LONE_ROWS_MAX
        if self._writers is None and self._arrow is None and is_small:
            return 1
        most = self._writers or self._slots
        return min(most, partitions) if partitions else most

    def _commit(self) -> None:
        for attempt in range(1, _COMMIT_ATTEMPTS + 1):
            try:
                self._owner.commit()
                return
            except TimedOut as error:
                if attempt == _COMMIT_ATTEMPTS:
                    raise PipelineError(
                        f"whether the transaction was committed is not known: {error}. Start the query again: then "
                        "the group's offsets tell, and nothing is lost or doubled"
                    ) from error


def _is_final(error: Exception) -> bool:
    """Whether another attempt would end the same way, or is not wanted."""
    text = str(error)
    return BadRow.__name__ in text or any(sign in text for sign in _CANCELLED)
