"""Recovery by hand: what a checkpoint and a group's offsets say about the last batch, for a user who has to decide.

A start goes on by itself wherever it is certain what was written. Where it is not, it refuses, and the user has to say
whether the last batch was written. ``Recovery`` says what either answer means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.client.values import OffsetAndMetadata
from semel.errors import SemelError
from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster
from semel.spark.continuation import Continuation, Continue, LastBatch, Refuse, Restore
from semel.spark.decision import SourcePartition
from semel.spark.plan import QueryPlan

_RETENTION = "offsets.retention.minutes"
_MINUTE_MS = 60_000


def last_batch(checkpoint: Checkpoint, plan: QueryPlan) -> LastBatch | None:
    """Return the last batch that the checkpoint planned; ``None`` if there is none.

    Raises ``Refused`` if the checkpoint is of a query with other sources.
    """
    batch_id = checkpoint.last_batch_id()
    if batch_id is None:
        return None
    ends = checkpoint.ends_of(batch_id, plan.source_ids)
    starts = checkpoint.ends_of(batch_id - 1, plan.source_ids) if batch_id > 0 else None
    assert ends is not None, "its file is there"
    return LastBatch(
        query_id=checkpoint.query_id() or "",
        batch_id=batch_id,
        planned_ms=checkpoint.planned_ms(batch_id),
        start=None if starts is None else plan.source_offsets(starts),
        end=plan.source_offsets(ends),
        is_done=checkpoint.is_done(batch_id),
    )


def offsets_kept_ms(cluster: Cluster) -> int | None:
    """Return how long the brokers keep the offsets of a group that commits nothing; ``None`` if the setting cannot be
    read."""
    try:
        minutes = cluster.broker_setting(_RETENTION)
    except SemelError:
        return None
    return None if minutes is None else int(minutes) * _MINUTE_MS


@dataclass(frozen=True, slots=True)
class Recovery:
    """What is known about the last batch of a pipeline, and what its next start would do."""

    last: LastBatch
    committed: Mapping[SourcePartition, OffsetAndMetadata]
    continuation: Continuation

    @property
    def is_needed(self) -> bool:
        return isinstance(self.continuation, Refuse)

    @property
    def summary(self) -> str:
        match self.continuation:
            case Continue():
                return "nothing is to be done: the next start goes on"
            case Restore():
                return "nothing is to be done: the next start commits the offsets that Spark's commit log tells"
            case Refuse(reason):
                return reason
