"""The start of a pipeline: check, take over the transactional id, read the group's offsets, in this order.

``check`` makes every check that needs no change, so ``Pipeline.check`` finds what ``start`` would refuse. After the
take-over the offsets are read again, and checked by the same rules: an older driver is now fenced, so it can no longer
change them.

A ``Start`` is a value that can be pickled: with Spark Connect it is executed in the process that runs the batches, not
in the one that calls ``start``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from time import time
from typing import TYPE_CHECKING, Final, assert_never

from semel.client.config.producer import ProducerConfig
from semel.client.tracing.tracer_provider import spans_of
from semel.client.values import OffsetAndMetadata
from semel.errors import AbortableError, ErrorCode, KafkaError, SemelError
from semel.spark.batch import MicroBatches
from semel.spark.checkpoint import Checkpoint
from semel.spark.claim import Claim
from semel.spark.cluster import Cluster, client_settings
from semel.spark.continuation import (
    Continuation,
    Continue,
    LastBatch,
    Refuse,
    Restore,
    continuation,
    retention_notice,
)
from semel.spark.decision import Note, SourcePartition
from semel.spark.plan import QueryPlan
from semel.spark.recovery import Recovery, last_batch, offsets_kept_ms
from semel.spark.refusals import (
    NoBroker,
    Refused,
    check_brokers,
    check_clusters,
    check_group_is_free,
    check_group_is_undivided,
    check_servers,
    check_sink_topics,
    check_sources_are_apart,
    check_transaction_timeout,
    check_twice,
    refusing,
    transaction_too_long,
)
from semel.spark.rewinding import (
    Rewind,
    generation_of,
    last_generation,
    location_of,
    moves_to,
    parse_target,
)
from semel.spark.sink.fused import Transform
from semel.spark.sink.sink import Sink
from semel.spark.sinks.protocol import Owner, groups_key
from semel.spark.sinks.side_sinks import SideSinks
from semel.spark.source.offsets import Earliest, Latest, OffsetRangeLimit, resolve
from semel.spark.source.options import SourceOptions
from semel.spark.source.source import starting_offsets
from semel.types import TopicPartition

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from semel.client.tracing.spans import Spans

log = logging.getLogger(__name__)

_FIRST_BATCH: Final = -1


@dataclass(frozen=True, slots=True)
class Start:
    plan: QueryPlan
    sink: Sink
    location: str
    """The checkpoint location that the user named."""
    columns: list[str]
    slots: int
    writers: int | None
    attempts: int
    arrow: Transform | None = None
    also: SideSinks = field(default_factory=SideSinks)
    generation: int = 0
    """How often the pipeline was rewound. It says which checkpoint counts."""

    @property
    def checkpoint_location(self) -> str:
        return location_of(self.location, self.generation)

    def in_generation(self, checkpoint: Checkpoint) -> Start:
        """Return this start with the generation that the group's notes have. ``checkpoint`` is the one that the user
        named.

        Raises ``NoBroker``. Other errors are ignored here: ``check`` and ``begin`` meet them again, and say what to do.
        """
        self._check_servers()
        try:
            with Cluster(**client_settings(self.sink.settings)) as cluster:
                self._check_brokers(cluster)
                noted = generation_of(self._committed(cluster, stable=False).values())
        except NoBroker:
            raise
        except (Refused, SemelError):
            noted = None
        # If the offsets have expired there are no notes: then the last generation that has a checkpoint counts.
        return replace(self, generation=last_generation(checkpoint) if noted is None else noted)

    def begin(self, checkpoint: Checkpoint, tracer_provider: TracerProvider | None = None) -> MicroBatches:
        """Execute the start, and return the function to call for every batch.

        Raises ``Refused``, with what to set. Nothing is changed before the checks have passed. ``tracer_provider`` is
        an argument and not a field, because it cannot be pickled and belongs to the process that runs the batches.
        """
        cluster = Cluster(**client_settings(self.sink.settings))
        claim: Claim | None = None
        try:
            self.check(cluster, checkpoint)
            claim = self._take_over(tracer_provider)
            offsets = self._offsets(cluster, checkpoint)
            for text in offsets.notices:
                log.warning("%s", text)
            self._prepare_sinks(claim, {**offsets.adopted, **offsets.committed}, checkpoint, offsets.vanished)
            if offsets.adopted:
                with claim.producer.transaction():
                    claim.send_offsets(offsets.adopted, offsets.committed, cluster)
            return MicroBatches(
                plan=self.plan,
                sink=self.sink,
                claim=claim,
                cluster=cluster,
                checkpoint=checkpoint,
                committed={**offsets.committed, **offsets.adopted},
                columns=self.columns,
                slots=self.slots,
                writers=self.writers,
                attempts=self.attempts,
                arrow=self.arrow,
                also=self.also,
                generation=self.generation,
                spans=self._spans(tracer_provider),
            )
        except BaseException:
            if claim is not None:
                claim.close(timeout_ms=0)
            cluster.close()
            raise

    def check(self, cluster: Cluster, checkpoint: Checkpoint) -> None:
        """Make every check that needs no change. Raises ``Refused``, with what to set."""
        self._check_servers()
        self._check_brokers(cluster)
        check_clusters(self.plan.sources, cluster)
        wanted = [name for name in (self.sink.topic, self.sink.dead_letter_topic) if name is not None]
        check_sink_topics(wanted, cluster)
        for group_id in self.plan.group_ids:
            check_group_is_free(group_id, cluster)
        check_transaction_timeout(self.sink.settings["transaction_timeout_ms"], cluster)
        self._check_topics(cluster, checkpoint)
        self._check_continuation(cluster, checkpoint)

    def recover(self, checkpoint: Checkpoint, *, is_written: bool | None) -> Recovery:
        """Return what is known about the last batch. If ``is_written`` is given, the group's offsets are set first."""
        self._check_servers()
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            self._check_brokers(cluster)
            check_clusters(self.plan.sources, cluster)
            last = last_batch(checkpoint, self.plan)
            if last is None:
                raise Refused(f"{self.location} has no batch yet: there is nothing to recover, and start() begins")
            last = last.without(self._vanished(last, cluster))
            if is_written is not None:
                for group_id in self.plan.group_ids:
                    check_group_is_free(group_id, cluster)
                self._set_offsets(last, is_written, cluster)
            committed = self._committed(cluster, stable=is_written is not None)
            return Recovery(last, committed, self._continuation(last, committed, cluster)[0])

    def rewind(self, checkpoint: Checkpoint, to: str, *, is_confirmed: bool) -> Rewind:
        """Return what a rewind would do; with ``is_confirmed`` do it. ``checkpoint`` is the one that the user named."""
        target = parse_target(to)
        self._check_servers()
        with Cluster(**client_settings(self.sink.settings)) as cluster:
            self._check_brokers(cluster)
            check_clusters(self.plan.sources, cluster)
            for group_id in self.plan.group_ids:
                check_group_is_free(group_id, cluster)
            if not is_confirmed:
                return self._rewind(checkpoint, target, self._committed(cluster, stable=False), cluster)
            claim = self._take_over()
            try:
                committed = self._committed(cluster)
                rewind = self._rewind(checkpoint, target, committed, cluster)
                with claim.producer.transaction():
                    claim.send_offsets(rewind.offsets(self._owner), committed, cluster)
            finally:
                claim.close(timeout_ms=0)
            return replace(rewind, is_done=True)

    def _rewind(
        self,
        checkpoint: Checkpoint,
        target: OffsetRangeLimit,
        committed: Mapping[SourcePartition, OffsetAndMetadata],
        cluster: Cluster,
    ) -> Rewind:
        targets: dict[SourcePartition, int] = {}
        begins: dict[SourcePartition, int] = {}
        ends: dict[SourcePartition, int] = {}
        for source, partitions in self._partitions(cluster):
            group_id = source.group_id or ""
            with refusing(ValueError):
                found = resolve(target, partitions, cluster, option="the place to rewind to")
            asked = (
                (targets, found),
                (begins, cluster.beginning_offsets(partitions)),
                (ends, cluster.end_offsets(partitions)),
            )
            for kept, offsets in asked:
                kept.update({SourcePartition(group_id, partition): offset for partition, offset in offsets.items()})
        generation = max(generation_of(committed.values()) or 0, last_generation(checkpoint)) + 1
        topic = self.sink.topic or (None if self.also else "the topics of the rows")
        return Rewind(
            moves_to(targets, committed, begins, ends),
            generation,
            location_of(self.location, generation),
            tuple(name for name in (topic, *self.also.names) if name is not None),
            self.plan.is_stateful,
            is_done=False,
        )

    def _set_offsets(self, last: LastBatch, is_written: bool, cluster: Cluster) -> None:
        offsets = last.offsets(
            is_written=is_written, owner=self._owner, sinks=self.also.names, generation=self.generation
        )
        if offsets is None or (last.is_done and not is_written):
            raise Refused(f"batch {last.batch_id} cannot be run again: {last.if_not_written}")
        claim = self._take_over()
        try:
            with claim.producer.transaction():
                claim.send_offsets(offsets, self._committed(cluster), cluster)
        finally:
            claim.close(timeout_ms=0)

    def _check_continuation(self, cluster: Cluster, checkpoint: Checkpoint) -> None:
        """Raises ``Refused`` if the checkpoint and the group's offsets do not belong together, twice in a row.

        The first attempt does not wait for an open transaction, which a dead driver may have left: the take-over will
        abort it.
        """
        check_twice(lambda is_second: self._offsets(cluster, checkpoint, stable=is_second))

    def _spans(self, tracer_provider: TracerProvider | None) -> Spans | None:
        """Return what makes the spans of batches. They name the group if there is only one."""
        groups = set(self.plan.group_ids)
        client_id = ProducerConfig.load(self.sink.settings).client.client_id
        return spans_of(tracer_provider, client_id=client_id, group_id=groups.pop() if len(groups) == 1 else None)

    def _take_over(self, tracer_provider: TracerProvider | None = None) -> Claim:
        try:
            return Claim.take({**self.sink.settings, "tracer_provider": tracer_provider}, self.plan.group_ids)
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise transaction_too_long(self.sink.settings["transaction_timeout_ms"]) from error
            raise

    def _prepare_sinks(
        self,
        claim: Claim,
        committed: Mapping[SourcePartition, OffsetAndMetadata],
        checkpoint: Checkpoint,
        vanished: Collection[SourcePartition],
    ) -> None:
        fence = claim.fence_identity
        owner = Owner(groups_key(self.plan.group_ids), fence.producer_id, fence.producer_epoch)
        diverts = self.sink.dead_letter_topic is not None
        self.also.prepare(
            owner,
            committed,
            checkpoint,
            self.plan,
            diverts=diverts,
            generation=self.generation,
            vanished=vanished,
        )

    def _offsets(self, cluster: Cluster, checkpoint: Checkpoint, *, stable: bool = True) -> _Offsets:
        """Return the group's committed offsets, and those to commit before the first batch.

        Raises ``Refused`` if the checkpoint and the group's offsets do not belong together.
        """
        last = last_batch(checkpoint, self.plan)
        vanished = self._vanished(last, cluster)
        committed = self._committed(cluster, stable=stable)
        self._check_generation(committed)
        if last is not None:
            return replace(self._continued(last.without(vanished), committed, cluster), vanished=vanished)
        adopted: dict[SourcePartition, OffsetAndMetadata] = {}
        notices = []
        for source, partitions in self._partitions(cluster):
            group_id = source.group_id or ""
            found = {
                tp: committed[SourcePartition(group_id, tp)]
                for tp in partitions
                if SourcePartition(group_id, tp) in committed
            }
            self._check_state_is_there(group_id, [Note.parse(at.metadata) for at in found.values()])
            with refusing(ValueError):
                starts = starting_offsets(source, partitions, found, cluster)
            for partition, offset in starts.items():
                sinks = _sinks_noted(found.get(partition))
                note = Note("", _FIRST_BATCH, offset, sinks, self._owner, self.generation)
                adopted[SourcePartition(group_id, partition)] = OffsetAndMetadata(offset, str(note))
            if source.starting_option is not None and len(found) == len(partitions):
                notices.append(_without_effect(source.starting_option, group_id, source.starting))
        return _Offsets(committed, adopted, tuple(notices))

    def _check_generation(self, committed: Mapping[SourcePartition, OffsetAndMetadata]) -> None:
        found = generation_of(committed.values())
        if found is not None and found != self.generation:
            raise Refused(
                f"the pipeline was rewound: its group is in generation {found}, and this start is of generation "
                f"{self.generation}. Start it again; with Spark Connect, use a classic session"
            )

    def _committed(self, cluster: Cluster, *, stable: bool = True) -> dict[SourcePartition, OffsetAndMetadata]:
        """Return the committed offsets of all groups, with their notes: C in docs/design/spark.md."""
        return {
            SourcePartition(source.group_id or "", topic_partition): at
            for source, partitions in self._partitions(cluster)
            for topic_partition, at in cluster.committed(source.group_id or "", partitions, stable=stable).items()
        }

    def _partitions(self, cluster: Cluster) -> list[tuple[SourceOptions, list[TopicPartition]]]:
        """Return each source with its partitions.

        Raises ``Refused`` for a topic or partition that does not exist, or that may not be described, and for one that
        two sources read under one group.
        """
        try:
            with refusing(AbortableError):
                found = [(source, source.subscription.partitions(cluster)) for source in self.plan.sources]
        except LookupError as error:
            raise Refused(f"{error}: create it first") from None
        check_sources_are_apart(found)
        return found

    def _check_servers(self) -> None:
        for servers in {str(one["bootstrap_servers"]) for one in (self.sink.settings, *self._source_settings)}:
            check_servers(servers)

    def _check_brokers(self, cluster: Cluster) -> None:
        check_brokers(cluster, str(self.sink.settings["bootstrap_servers"]))

    @property
    def _source_settings(self) -> list[Mapping[str, str]]:
        return [source.settings for source in self.plan.sources]

    def _check_topics(self, cluster: Cluster, checkpoint: Checkpoint) -> None:
        read: dict[str, set[str]] = {}
        for source, partitions in self._partitions(cluster):
            read.setdefault(source.group_id or "", set()).update(topic for topic, _ in partitions)
        for group_id, topics in read.items():
            check_group_is_undivided(group_id, topics, self._owner, cluster)
        last = last_batch(checkpoint, self.plan)
        if last is not None and all(source.fail_on_data_loss for source in self.plan.sources):
            gone = {partition.topic_partition.topic for partition in last.end} - set().union(*read.values())
            if gone:
                raise Refused(
                    f"{self.location} is of a query that reads {', '.join(map(repr, sorted(gone)))}, which this one "
                    "does not, or which is gone: give this one a checkpoint location of its own"
                )

    def _vanished(self, last: LastBatch | None, cluster: Cluster) -> set[SourcePartition]:
        """Return the partitions of the last batch that the query does not read any more."""
        try:
            return set() if last is None else self.plan.vanished(last.end, cluster)
        except LookupError as error:
            raise Refused(f"{error}: create it first") from None

    def _continued(
        self, last: LastBatch, committed: dict[SourcePartition, OffsetAndMetadata], cluster: Cluster
    ) -> _Offsets:
        found, notice = self._continuation(last, committed, cluster)
        notices = () if notice is None else (notice,)
        match found:
            case Refuse(reason, remedy):
                raise Refused(f"{self.location}: {reason}. {remedy}")
            case Restore():
                restored = last.offsets(
                    is_written=True, owner=self._owner, sinks=self.also.names, generation=self.generation
                )
                return _Offsets(committed, restored or {}, notices)
            case Continue():
                return _Offsets(committed, {}, notices)
            case _:
                assert_never(found)

    def _continuation(
        self, last: LastBatch, committed: Mapping[SourcePartition, OffsetAndMetadata], cluster: Cluster
    ) -> tuple[Continuation, str | None]:
        """Return what a start does, and a warning if the brokers keep offsets for too short a time."""
        idle_ms, kept_ms = int(time() * 1000) - last.planned_ms, offsets_kept_ms(cluster)
        may_have_expired = kept_ms is not None and idle_ms >= kept_ms
        found = continuation(last, committed, may_have_expired=may_have_expired, is_stateful=self.plan.is_stateful)
        return found, None if kept_ms is None else retention_notice(idle_ms, kept_ms)

    @property
    def _owner(self) -> str:
        return str(self.sink.settings["transactional_id"])

    def _check_state_is_there(self, group_id: str, notes: list[Note | None]) -> None:
        if self.plan.is_stateful and any(note is not None and note.batch_id > _FIRST_BATCH for note in notes):
            raise Refused(
                f"group {group_id!r} has offsets of an earlier run, and {self.location} has no state: what was "
                "counted up to there would be missing. Restore the checkpoint, or begin with a new group and a new sink"
            )


@dataclass(frozen=True, slots=True)
class _Offsets:
    committed: dict[SourcePartition, OffsetAndMetadata]
    """The committed offsets of all groups, with their notes: C in docs/design/spark.md."""
    adopted: dict[SourcePartition, OffsetAndMetadata]
    """The offsets to commit before the first batch. If no batch was planned yet: where batch 0 begins, for all
    partitions that exist. If the offsets have expired: those that follow from Spark's commit log. Else none."""
    notices: tuple[str, ...] = ()
    """Warnings for the log."""
    vanished: Collection[SourcePartition] = ()
    """Partitions of the last batch that the query does not read any more."""


def _sinks_noted(at: OffsetAndMetadata | None) -> tuple[str, ...]:
    note = None if at is None else Note.parse(at.metadata)
    return () if note is None else note.sinks


def _without_effect(option: str, group_id: str, starting: OffsetRangeLimit) -> str:
    to = "earliest" if isinstance(starting, Earliest) else "latest" if isinstance(starting, Latest) else "PLACE"
    return (
        f"{option} has no effect: group {group_id!r} has offsets already, and the pipeline goes on from them. To begin "
        f"elsewhere: semel pipeline rewind FILE --to {to}, or rewind() of the pipeline; or use another kafka.group.id"
    )
