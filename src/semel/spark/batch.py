"""Runs each micro-batch as one Kafka transaction: decide, write, send offsets, commit. A failed attempt is aborted, and
the next one runs under a new producer epoch.

The law: two attempts never share an epoch, and nothing is tried again once another driver has taken over the
transactional id.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from time import monotonic, time
from typing import TYPE_CHECKING, Final, assert_never

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from semel.client.machine.producer.sequences import TRANSACTIONS_V2
from semel.client.values import OffsetAndMetadata, ProducerIdentity
from semel.errors import AbortableError, FatalError, ProducerFenced, SemelError, TimedOut
from semel.spark.checkpoint import Checkpoint
from semel.spark.claim import Claim
from semel.spark.cluster import Cluster
from semel.spark.decision import Batch, Note, Run, Skip, SourcePartition, Stop, batch_zero_offsets, decide
from semel.spark.errors import BrokersAway, PipelineError, Superseded, sentence_of
from semel.spark.plan import QueryPlan
from semel.spark.progress import BatchOutput
from semel.spark.refusals import Refused, longest_transaction_ms
from semel.spark.sink.fused import Transform, write_fused
from semel.spark.sink.row_partitioning import BadRow
from semel.spark.sink.sink import Sink, WriteJob, record_size_bytes_max
from semel.spark.sink.stage import write_rows
from semel.spark.sinks.ledger import LedgerMismatch
from semel.spark.sinks.protocol import SinkError, SinkFenced
from semel.spark.sinks.refused_rows import RefusedRow
from semel.spark.sinks.side_sinks import SideSinks, computed_once
from semel.spark.source.offsets import Offsets
from semel.spark.source.reading import first_headers
from semel.spark.source.splits import Split

if TYPE_CHECKING:
    from semel.client.tracing.spans import Spans

log = logging.getLogger(__name__)

# Kafka's default of transaction.max.timeout.ms, used if the broker does not tell its own.
_LONGEST_MS: Final = 900_000
# Up to so many rows, one task writes them sooner than several tasks would: for several tasks the rows must first be
# partitioned, in a stage of its own.
_LONE_ROWS_MAX: Final = 10_000
# The number of batches whose progress Spark keeps.
_RECENT_MAX: Final = 100
# OpenTelemetry's default limit for the links of one span.
_SENDERS_MAX: Final = 128
# What Spark's error contains if a job was cancelled on purpose, as query.stop() does.
_CANCELLED: Final = ("SPARK_JOB_CANCELLED", "cancelled because", "InterruptedException", "SparkContext was shut down")


class _Undecided(PipelineError):
    """A commit was requested and its outcome is not known. It can no longer be replaced by an abort."""


class MicroBatches:
    """The function for ``foreachBatch``: writes and commits one micro-batch for each call.

    ``committed`` are the group's committed offsets (C in docs/design/spark.md), read after the take-over of the
    transactional id. From then on they are kept here and updated with each commit.
    """

    def __init__(
        self,
        *,
        plan: QueryPlan,
        sink: Sink,
        claim: Claim,
        cluster: Cluster,
        checkpoint: Checkpoint,
        committed: Mapping[SourcePartition, OffsetAndMetadata],
        columns: list[str],
        slots: int,
        writers: int | None,
        attempts: int,
        arrow: Transform | None = None,
        also: SideSinks | None = None,
        generation: int = 0,
        spans: Spans | None = None,
    ) -> None:
        self._arrow = arrow
        self._spans = spans
        self._generation = generation
        self._also = also or SideSinks()
        self._plan = plan
        self._sink = sink
        self._claim = claim
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
        self._written: deque[tuple[int, int, int]] = deque(maxlen=_RECENT_MAX)
        """For each of the last batches: its number, the rows written to topics, and how many of these went to the
        dead-letter topic."""
        self._failure_lock = Lock()
        self._is_logged = False

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        try:
            try:
                self._do(df, batch_id)
            except TimedOut as error:
                raise BrokersAway(error, "outage_timeout_ms", self._sink.settings.get("max_block_ms")) from error
        except (PipelineError, Refused, SemelError) as error:
            self.log_failure(error)  # Before Spark wraps the error into its own.
            raise

    def log_failure(self, error: Exception) -> None:
        """Log in one line why the pipeline stops. Only the first call logs. ``error`` may be Spark's, with ours in its
        text."""
        with self._failure_lock:
            if not self._is_logged:
                log.error("the pipeline %r stops: %s", self._sink.settings["transactional_id"], sentence_of(error))
            self._is_logged = True

    def output(self, batch_id: int) -> BatchOutput:
        """Return how many rows one of the last batches wrote, with metrics of each sink."""
        rows, dead = next(((all_, dead) for number, all_, dead in self._written if number == batch_id), (0, 0))
        metrics = Counter({} if self._sink.dead_letter_topic is None else {"dead-letter-rows": dead})
        for one in self._also.recent:
            # There are several entries for a sink if an attempt failed after this sink had committed.
            if one.batch_id == batch_id:
                metrics[f"{one.sink}.rows"] += one.row_count
                metrics[f"{one.sink}.write-time-ms"] += one.duration_ms
        has_topic = self._sink.topic is not None or not self._also
        return BatchOutput(rows - dead if has_topic else None, metrics)

    def _do(self, df: DataFrame, batch_id: int) -> None:
        batch = self._planned(batch_id)
        self._sink.reached("planned", batch_id)
        decision = decide(batch, self._committed)
        match decision:
            case Skip():
                log.info("batch %d is committed already: nothing is written", batch_id)
                if self._plan.is_stateful:
                    _update_state_only(df)
            case Stop(reason):
                raise PipelineError(reason)
            case Run():
                with self._span(batch):
                    self._run(df, batch)
            case _:
                assert_never(decision)
        self._sink.reached("done", batch_id)

    def close(self, *, timeout_ms: int) -> None:
        """Abort an open transaction and close all clients. Each producer waits for at most ``timeout_ms``."""
        self._claim.close(timeout_ms=timeout_ms)
        self._cluster.close()

    # The batch as Spark planned it

    def _planned(self, batch_id: int) -> Batch:
        if self._query_id is None:
            self._query_id = self._checkpoint.query_id() or ""
        before = self._ends_of(batch_id - 1, "where it begins") if batch_id > 0 else None
        ends = self._ends_of(batch_id, "which is to be run")
        self._ends = (batch_id, ends)
        start = batch_zero_offsets(self._committed) if before is None else self._plan.source_offsets(before)
        return self._still_read(Batch(self._query_id, batch_id, start, self._plan.source_offsets(ends)))

    def _still_read(self, batch: Batch) -> Batch:
        """Return the batch without partitions that the query does not read any more, if it may go on without them.

        A partition with records in this batch is left out only if its topic does not exist: then its offset cannot be
        committed.
        """
        try:
            vanished = self._plan.vanished(batch.end, self._cluster)
        except LookupError as error:
            raise PipelineError(f"batch {batch.batch_id}: {error}") from error
        read = {partition for partition in vanished if batch.start.get(partition) != batch.end[partition]}
        if read:
            missing = self._cluster.look_up({topic for _, (topic, _) in read}).missing
            vanished -= {partition for partition in read if partition.topic_partition.topic not in missing}
        return batch.without(vanished)

    def _ends_of(self, batch_id: int, why: str) -> list[Offsets]:
        if self._ends is not None and self._ends[0] == batch_id:
            return self._ends[1]
        ends = self._checkpoint.ends_of(batch_id, self._plan.source_ids)
        if ends is None:
            raise PipelineError(f"{self._checkpoint.location} has no offsets of batch {batch_id}, {why}")
        return ends

    def _span(self, batch: Batch) -> AbstractContextManager[None]:
        """Return a span for the batch, with links to the spans that sent its first records.

        The headers of these records are read for this with a fetch of their own.
        """
        if self._spans is None:
            return nullcontext()
        splits = [
            Split(partition.topic_partition, batch.start[partition], end)
            for partition, end in batch.end.items()
            if partition in batch.start
        ]
        senders = first_headers(splits, self._cluster, count_max=_SENDERS_MAX)
        topics = {partition.topic_partition.topic for partition in batch.end}
        return self._spans.processing_batch(batch.batch_id, topics, batch.offset_count, senders)

    # Attempts

    def _run(self, df: DataFrame, batch: Batch) -> None:
        for attempt in range(1, self._attempts + 1):
            is_last = attempt == self._attempts
            begun = monotonic()
            try:
                if self._attempt(df, batch, is_last=is_last):
                    return
            except ProducerFenced as error:
                self._renew(batch, int((monotonic() - begun) * 1000), error, is_last=is_last)
            except SinkFenced as error:
                raise Superseded(f"batch {batch.batch_id}: {error}. Nothing more is written by this one") from error
            except (SinkError, LedgerMismatch) as error:
                raise PipelineError(f"batch {batch.batch_id}: {error}") from error
            except FatalError as error:
                raise PipelineError(f"batch {batch.batch_id} cannot be committed: {error}") from error
            log.warning("batch %d failed at attempt %d of %d", batch.batch_id, attempt, self._attempts)

    def _renew(self, batch: Batch, took_ms: int, error: ProducerFenced, *, is_last: bool) -> None:
        """Initialize the producer again, with a longer transaction timeout, if the broker aborted the attempt for
        taking too long.

        Raises ``Superseded`` if another driver has taken over instead, and ``PipelineError`` if this was the last
        attempt or the broker allows no longer timeout.
        """
        timeout_ms = self._claim.transaction_timeout_ms
        if took_ms < timeout_ms:
            raise Superseded(
                f"batch {batch.batch_id}: another driver has taken over the transactional id "
                f"{self._sink.settings['transactional_id']!r} ({error}). Nothing more is written by this one"
            ) from error
        longest_ms = longest_transaction_ms(self._cluster) or _LONGEST_MS
        next_ms = next_timeout_ms(took_ms, timeout_ms, longest_ms)
        reason = (
            f"batch {batch.batch_id} took {took_ms} ms, and the broker aborts a transaction after "
            f"transaction_timeout_ms={timeout_ms}"
        )
        self._claim.renew(next_ms, self._cluster)
        if is_last or next_ms <= timeout_ms:
            raise PipelineError(
                f"{reason}. Nothing of it was committed. Make batches smaller (maxOffsetsPerTrigger), or raise "
                f"transaction_timeout_ms, up to the broker's transaction.max.timeout.ms={longest_ms}"
            ) from error
        log.warning("%s: the next attempt has %d ms", reason, next_ms)

    def _attempt(self, df: DataFrame, batch: Batch, *, is_last: bool) -> bool:
        """Run one attempt. Returns whether the batch is committed; ``False`` means that it can be tried again.

        Raises an error that another attempt would not cure, and any error of the last attempt.
        """
        identity = self._begin()
        try:
            self._transact(df, batch, identity)
            return True
        except (FatalError, _Undecided):
            raise
        except (AbortableError, PySparkException, Py4JError, SinkError) as error:
            self._give_up(identity)
            is_final = is_last or BadRow.__name__ in str(error)
            if _is_cancelled(error) or isinstance(error, SinkFenced) or (is_final and isinstance(error, SinkError)):
                raise
            said = sentence_of(error)
            if is_final:
                raise PipelineError(f"batch {batch.batch_id}: {said}. Nothing of it was committed") from error
            log.warning("batch %d: %s", batch.batch_id, said)
            return False
        except BaseException:
            self._give_up(identity)
            raise

    def _begin(self) -> ProducerIdentity:
        if self._claim.producer.identity.transaction_version < TRANSACTIONS_V2:
            self._claim.producer.bump_epoch()  # With transactions V2, EndTxn has already bumped it.
        self._claim.producer.begin()
        return self._claim.producer.identity

    def _give_up(self, identity: ProducerIdentity) -> None:
        self._claim.producer.abort()
        # A transaction without records ends without a new epoch. But a task of it may still be about to write.
        if self._claim.producer.identity == identity:
            self._claim.producer.bump_epoch()

    def _transact(self, df: DataFrame, batch: Batch, identity: ProducerIdentity) -> None:
        reached = self._sink.reached
        reached("begun", batch.batch_id)
        written = self._write_all(df, batch, identity)
        reached("written", batch.batch_id)
        refused = self._also.refused_rows
        if refused:
            self._send_refused(refused, written)
        if not written and not refused and batch.is_empty:
            self._claim.producer.abort()
            return
        # The note says where batch 0 began, since Spark may run batch 0 again until batch 1 is planned.
        first = batch.start if batch.batch_id == 0 else {}
        owner = self._sink.settings["transactional_id"]
        offsets = {
            partition: OffsetAndMetadata(
                offset,
                str(
                    Note(
                        batch.query_id, batch.batch_id, first.get(partition), self._also.names, owner, self._generation
                    )
                ),
            )
            for partition, offset in self._still_read(batch).end.items()
        }
        self._claim.send_offsets(offsets, self._committed, self._cluster)
        reached("offsets sent", batch.batch_id)
        self._commit()
        self._committed.update(offsets)
        dead = sum(row["records"] for row in written if row["topic"] == self._sink.dead_letter_topic) + len(refused)
        self._written.append((batch.batch_id, sum(row["records"] for row in written) + len(refused), dead))
        reached("committed", batch.batch_id)

    def _write_all(self, df: DataFrame, batch: Batch, identity: ProducerIdentity) -> list[Row]:
        """Write the batch to the other sinks, each with a commit of its own, then to the topic, whose records become
        visible with EndTxn.

        Returns the number of records for each partition of the topic.
        """
        if not self._also:
            return self._write(df, batch, identity)
        # The sinks commit before the transaction does, so a driver that was superseded should stop here.
        self._claim.confirm(self._cluster)
        if self._sink.topic is None and len(self._also) == 1:
            return self._write_others(df, batch)
        with computed_once(df):
            written = self._write_others(df, batch)
            return self._write(df, batch, identity) if self._sink.topic is not None else written

    def _write_others(self, df: DataFrame, batch: Batch) -> list[Row]:
        is_computed = self._also.write(df, batch)
        self._sink.reached("sinks written", batch.batch_id)
        if self._sink.topic is None and self._plan.is_stateful and not is_computed:
            _update_state_only(df)
        return []

    def _send_refused(self, refused: list[RefusedRow], written: list[Row]) -> None:
        """Send refused rows from the driver to the dead-letter topic, within the open transaction.

        A partition has one writer within an epoch, so the driver uses a partition to which no task has written.
        """
        topic = self._sink.dead_letter_topic
        if topic is None:
            raise PipelineError(
                f"{refused[0].sink} has left out {len(refused)} rows of this batch for a dead-letter topic, and now "
                "there is none: set dead_letter_topic as it was"
            )
        count = self._cluster.topics([topic]).partition_counts.get(topic)
        if count is None:
            raise PipelineError(f"the dead-letter topic cannot be written to: there is no topic {topic!r}")
        taken = {row["partition"] for row in written if row["topic"] == topic}
        free = [partition for partition in range(count) if partition not in taken]
        if not free:
            raise PipelineError(
                f"a batch has rows that Kafka does not take and rows that {refused[0].sink} does not take, and they "
                f"cannot share a partition of {topic!r}, which has {count}: give it {count + 1}"
            )
        size_bytes_max = record_size_bytes_max(self._sink.settings)
        sent = [
            self._claim.producer.send(topic, row.value(size_bytes_max), partition=free[0], headers=row.headers)
            for row in refused
        ]
        for future in sent:
            future.result()

    def _write(self, df: DataFrame, batch: Batch, identity: ProducerIdentity) -> list[Row]:
        """Run the barrier stage that writes the topic. Returns the number of records for each partition.

        Each attempt makes a new DataFrame: one whose job has failed once fails always.
        """
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
        """Return how many tasks write: ``writers`` if the user set it, else one for a small batch, else one per slot.

        A batch is small if both its offsets and the rows of the batch before are few. There are never more writers than
        partitions.
        """
        is_small = max(batch.offset_count, self._rows_before) <= _LONE_ROWS_MAX
        if self._writers is None and self._arrow is None and is_small:
            return 1
        most = self._writers or self._slots
        return min(most, partitions) if partitions else most

    def _commit(self) -> None:
        try:
            self._claim.producer.commit()
        except TimedOut as error:
            raise _Undecided(
                f"whether the transaction was committed is not known: {error}. Start the query again: then the group's "
                "offsets tell, and nothing is lost or doubled"
            ) from error


def _update_state_only(df: DataFrame) -> None:
    """Compute the batch and discard its rows, so that a stateful query updates its state for a batch that every
    output already has."""
    df.write.format("noop").mode("overwrite").save()


def next_timeout_ms(took_ms: int, timeout_ms: int, longest_ms: int) -> int:
    """Return the transaction timeout for the next attempt, after one took longer than ``timeout_ms``."""
    return max(timeout_ms, min(2 * max(took_ms, timeout_ms), longest_ms))


def _is_cancelled(error: Exception) -> bool:
    """Whether the job was cancelled on purpose. Then there is no other attempt, and the error is raised unchanged,
    because Spark expects its own error."""
    text = str(error)
    return any(sign in text for sign in _CANCELLED)
