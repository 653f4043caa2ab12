"""The start of a pipeline: check, take over the transactional id, read the group's offsets, in this order.

``check`` raises whatever can be refused without a change, so ``Pipeline.check`` finds what ``start`` would refuse.
After the take-over the offsets are read again, and refused by the same rules.

After the take-over an older driver is fenced, so it cannot change the offsets that are read. A ``Start`` is a value
that can be sent: with Spark Connect it is executed in the process that runs the batches, not in the one that calls
``start``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from semel.blocking import Producer
from semel.client.values import OffsetAndMetadata
from semel.errors import ErrorCode, KafkaError
from semel.spark.batch import MicroBatches
from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster, client_settings
from semel.spark.decision import Note, Place
from semel.spark.plan import QueryPlan
from semel.spark.refusals import (
    Refused,
    check_clusters,
    check_group_is_free,
    check_transaction_timeout,
    transaction_too_long,
)
from semel.spark.sink.fused import Transform
from semel.spark.sink.sink import Sink
from semel.spark.source.source import starting_offsets

_FIRST_BATCH: Final = -1


@dataclass(frozen=True, slots=True)
class Start:
    plan: QueryPlan
    sink: Sink
    location: str
    """Of the checkpoint."""
    columns: list[str]
    slots: int
    writers: int | None
    attempts: int
    arrow: Transform | None = None

    def begin(self, checkpoint: Checkpoint) -> MicroBatches:
        """What is to be called for every batch. Raises ``Refused``, with what to set, before anything is touched."""
        cluster = Cluster(**client_settings(self.sink.settings))
        owner: Producer | None = None
        try:
            self.check(cluster, checkpoint)
            owner = self._take_over()
            offsets = self._offsets(cluster, checkpoint)
            if offsets.adopted:
                _commit_offsets(owner, offsets.adopted)
            return MicroBatches(
                plan=self.plan,
                sink=self.sink,
                owner=owner,
                cluster=cluster,
                checkpoint=checkpoint,
                committed={**offsets.committed, **offsets.adopted},
                columns=self.columns,
                slots=self.slots,
                writers=self.writers,
                attempts=self.attempts,
                arrow=self.arrow,
            )
        except BaseException:
            if owner is not None:
                owner.close(timeout_ms=0)
            cluster.close()
            raise

    def check(self, cluster: Cluster, checkpoint: Checkpoint) -> None:
        """Raises ``Refused``, with what to set. Nothing is changed."""
        check_clusters(self.plan.sources, cluster)
        wanted = [name for name in (self.sink.topic, self.sink.dead_letter_topic) if name is not None]
        missing = cluster.topics(wanted).missing if wanted else ()
        if missing:
            raise Refused(f"there is no topic {', '.join(map(repr, missing))} to write to: create it first")
        for group_id in {source.group_id for source in self.plan.sources if source.group_id is not None}:
            check_group_is_free(group_id, cluster)
        check_transaction_timeout(self.sink.settings["transaction_timeout_ms"], cluster)
        # A dead driver may have left its transaction open: what it would commit is not waited for, but aborted later.
        self._offsets(cluster, checkpoint, stable=False)

    def _take_over(self) -> Producer:
        owner = Producer(**self.sink.settings)
        try:
            owner.init()
        except KafkaError as error:
            owner.close(timeout_ms=0)
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise transaction_too_long(self.sink.settings["transaction_timeout_ms"]) from error
            raise
        except BaseException:
            owner.close(timeout_ms=0)
            raise
        return owner

    def _offsets(self, cluster: Cluster, checkpoint: Checkpoint, *, stable: bool = True) -> _Offsets:
        """Raises ``Refused`` if the checkpoint and the group's offsets do not belong together."""
        last_batch_id = checkpoint.last_batch_id()
        committed: dict[Place, OffsetAndMetadata] = {}
        adopted: dict[Place, OffsetAndMetadata] = {}
        for source in self.plan.sources:
            group_id = source.group_id
            assert group_id is not None, "check_plan has seen to it"
            try:
                partitions = source.subscription.partitions(cluster)
            except LookupError as error:
                raise Refused(f"{error}: create it first") from None
            found = cluster.committed(group_id, partitions, stable=stable)
            committed.update({Place(group_id, partition): at for partition, at in found.items()})
            notes = [Note.parse(at.metadata) for at in found.values()]
            if last_batch_id is None:
                self._check_state_is_there(group_id, notes)
                starts = starting_offsets(source, partitions, found, cluster)
                for partition, offset in starts.items():
                    note = Note("", _FIRST_BATCH, begin=offset)
                    adopted[Place(group_id, partition)] = OffsetAndMetadata(offset, str(note))
            elif not found:
                raise Refused(
                    f"{self.location} is at batch {last_batch_id}, and group {group_id!r} has no offsets: they "
                    "expired or were deleted, and nothing says whether that batch was written. Begin with a new "
                    "checkpoint and with startingOffsets, knowing what may be doubled or missing"
                )
        return _Offsets(committed, adopted)

    def _check_state_is_there(self, group_id: str, notes: list[Note | None]) -> None:
        if self.plan.is_stateful and any(note is not None and note.batch_id > _FIRST_BATCH for note in notes):
            raise Refused(
                f"group {group_id!r} has offsets of an earlier run, and {self.location} has no state: what was "
                "counted up to there would be missing. Restore the checkpoint, or begin with a new group and a new sink"
            )


@dataclass(frozen=True, slots=True)
class _Offsets:
    committed: dict[Place, OffsetAndMetadata]
    """C of docs/design/spark.md."""
    adopted: dict[Place, OffsetAndMetadata]
    """If no batch was planned yet: where batch 0 begins, noted for all partitions that are there."""


def _commit_offsets(owner: Producer, offsets: Mapping[Place, OffsetAndMetadata]) -> None:
    with owner.transaction():
        for group_id in sorted({place.group_id for place in offsets}):
            own = {place.topic_partition: at for place, at in offsets.items() if place.group_id == group_id}
            owner.send_offsets(own, group_id)
