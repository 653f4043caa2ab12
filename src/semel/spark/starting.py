"""The start of a pipeline: check the cluster, take over the transactional id, read the group's offsets, in this order.

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
from semel.spark.refusals import Refused, check_clusters, check_group_is_free
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
            self.check(cluster)
            owner = self._take_over()
            return MicroBatches(
                plan=self.plan,
                sink=self.sink,
                owner=owner,
                cluster=cluster,
                checkpoint=checkpoint,
                committed=self._committed(cluster, checkpoint, owner),
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

    def check(self, cluster: Cluster) -> None:
        """Raises ``Refused`` for what can be seen without taking over."""
        check_clusters(self.plan.sources, cluster)
        wanted = [name for name in (self.sink.topic, self.sink.dead_letter_topic) if name is not None]
        missing = cluster.topics(wanted).missing if wanted else ()
        if missing:
            raise Refused(f"there is no topic {', '.join(map(repr, missing))} to write to: create it first")
        for group_id in {source.group_id for source in self.plan.sources if source.group_id is not None}:
            check_group_is_free(group_id, cluster)

    def _take_over(self) -> Producer:
        owner = Producer(**self.sink.settings)
        try:
            owner.init()
        except KafkaError as error:
            owner.close(timeout_ms=0)
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise Refused(
                    f"transaction_timeout_ms={self.sink.settings['transaction_timeout_ms']} is more than the broker's "
                    "transaction.max.timeout.ms: lower the one, or raise the other"
                ) from error
            raise
        except BaseException:
            owner.close(timeout_ms=0)
            raise
        return owner

    def _committed(self, cluster: Cluster, checkpoint: Checkpoint, owner: Producer) -> dict[Place, OffsetAndMetadata]:
        """C; and if no batch was planned yet, with where batch 0 begins noted for all partitions that are there."""
        last_batch_id = checkpoint.last_batch_id()
        committed: dict[Place, OffsetAndMetadata] = {}
        adopted: dict[Place, OffsetAndMetadata] = {}
        for source in self.plan.sources:
            group_id = source.group_id
            assert group_id is not None, "check_plan has seen to it"
            partitions = source.subscription.partitions(cluster)
            found = cluster.committed(group_id, partitions)
            committed.update({Place(group_id, partition): at for partition, at in found.items()})
            notes = [Note.parse(at.metadata) for at in found.values()]
            if last_batch_id is None:
                self._check_state_is_there(group_id, notes)
                starts = starting_offsets(source, partitions, cluster)
                for partition, offset in starts.items():
                    note = Note("", _FIRST_BATCH, begin=offset)
                    adopted[Place(group_id, partition)] = OffsetAndMetadata(offset, str(note))
            elif not found:
                raise Refused(
                    f"{self.location} is at batch {last_batch_id}, and group {group_id!r} has no offsets: they "
                    "expired or were deleted, and nothing says whether that batch was written. Begin with a new "
                    "checkpoint and with startingOffsets, knowing what may be doubled or missing"
                )
        if adopted:
            _commit_offsets(owner, adopted)
        return {**committed, **adopted}

    def _check_state_is_there(self, group_id: str, notes: list[Note | None]) -> None:
        if self.plan.is_stateful and any(note is not None and note.batch_id > _FIRST_BATCH for note in notes):
            raise Refused(
                f"group {group_id!r} has offsets of an earlier run, and {self.location} has no state: what was "
                "counted up to there would be missing. Restore the checkpoint, or begin with a new group and a new sink"
            )


def _commit_offsets(owner: Producer, offsets: Mapping[Place, OffsetAndMetadata]) -> None:
    with owner.transaction():
        for group_id in sorted({place.group_id for place in offsets}):
            own = {place.topic_partition: at for place, at in offsets.items() if place.group_id == group_id}
            owner.send_offsets(own, group_id)
