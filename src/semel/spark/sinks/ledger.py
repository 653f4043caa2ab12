"""Compares the last batch in a sink's ledger with the group's committed offsets, and with the batch to be written.
Pure; the tables are in docs/design/sinks.md.

The law: a batch is written to a sink only if the sink's last batch ends where this one begins, and is skipped only if
the sink has this same batch.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.spark.decision import Batch, SourcePartition
from semel.spark.sinks.protocol import SinkBatch


class LedgerMismatch(ValueError):
    """The sink's last batch is neither the batch to be written nor the one right before it. Nothing was written."""


def refusal_at_start(
    sink: str,
    last: SinkBatch | None,
    committed: Mapping[SourcePartition, int],
    planned: SinkBatch | None,
    *,
    is_noted: bool,
    generation: int = 0,
) -> str | None:
    """Return the reason why the pipeline cannot continue with this sink; ``None`` if it can.

    ``committed`` are the group's committed offsets. ``planned`` is the last batch that the checkpoint planned.
    ``is_noted``: the notes beside the committed offsets name this sink. ``generation`` is the group's.
    """
    if last is not None and last.generation > generation:
        return _of_a_later_generation(sink, last, generation)
    if last is not None and last.generation < generation:
        # The line was written before the rewind. Either the sink has no batch of this generation yet, or its newer line
        # is gone.
        return _behind(sink, last, committed) if is_noted else None
    if last is None:
        return _deleted(sink) if is_noted else None
    shared = last.end.keys() & committed.keys()
    if any(last.end[partition] < committed[partition] for partition in shared):
        return _behind(sink, last, committed)
    if all(last.end[partition] == committed[partition] for partition in shared):
        if planned is None or planned.query_id != last.query_id or planned.batch_id >= last.batch_id:
            return None
        return _of_an_older_copy(sink, last, planned)
    if planned is not None and last.generation == planned.generation and _is(last, planned):
        return None
    return _ahead(sink, last, planned)


def is_written(sink: str, last: SinkBatch | None, batch: Batch, *, generation: int = 0) -> bool:
    """Whether the sink has the batch already. Raises ``LedgerMismatch`` if it has neither this batch nor the one right
    before it."""
    if last is None or last.generation < generation:
        return False
    if last.generation > generation:
        raise LedgerMismatch(_of_a_later_generation(sink, last, generation))
    if (last.query_id, last.batch_id) == (batch.query_id, batch.batch_id):
        if not _is(last, batch):
            raise LedgerMismatch(_ahead(sink, last, SinkBatch(batch.query_id, batch.batch_id, batch.end)))
        return True
    if any(last.end[partition] != batch.start[partition] for partition in last.end.keys() & batch.start.keys()):
        raise LedgerMismatch(
            f"{sink} ends at batch {last.batch_id} ({_offsets(last.end)}), and batch {batch.batch_id} begins at "
            f"{_offsets(batch.start)}. Nothing was written"
        )
    return False


def _is(last: SinkBatch, batch: SinkBatch | Batch) -> bool:
    """Whether the sink's last batch is this one. The sink's may have partitions that were deleted since, and that the
    query no longer reads."""
    is_same = (last.query_id, last.batch_id) == (batch.query_id, batch.batch_id)
    return is_same and all(last.end.get(partition) == offset for partition, offset in batch.end.items())


def _of_an_older_copy(sink: str, last: SinkBatch, planned: SinkBatch) -> str:
    return (
        f"{sink} has batch {last.batch_id} of query {last.query_id}, and this checkpoint has planned batch "
        f"{planned.batch_id} of it, up to the same offsets: the checkpoint is an older copy. Restore the newest one. "
        "Without it, begin with a new group and give the sink another name="
    )


def _of_a_later_generation(sink: str, last: SinkBatch, generation: int) -> str:
    return (
        f"{sink} has batch {last.batch_id} of generation {last.generation}, and the group is in generation "
        f"{generation}: its offsets are of before a rewind, from a backup or set by a tool. Restore them. Or rewind "
        "the pipeline again, to where it is to begin, and give the sink another name="
    )


def _deleted(sink: str) -> str:
    return (
        f"{sink} has no line in its ledger, and the group's offsets say that it had: the ledger was deleted, and "
        f"nothing says whether {sink} has the last batch. Restore the ledger. Or look at what {sink} has, bring it to "
        "where the group is, and give the sink another name=, under which it begins there"
    )


def _behind(sink: str, last: SinkBatch, committed: Mapping[SourcePartition, int]) -> str:
    return (
        f"{sink} ends at {_offsets(last.end)}, behind the group, which is at {_offsets(committed)}: it was restored "
        "from a backup, or left out for a while, and lacks what is between. Restore all of it. Or give the sink "
        "another name=, under which it begins where the group is, without what is between"
    )


def _ahead(sink: str, last: SinkBatch, planned: SinkBatch | None) -> str:
    has = (
        "this checkpoint has planned no batch"
        if planned is None
        else f"this checkpoint has planned batch {planned.batch_id} of query {planned.query_id} up to "
        f"{_offsets(planned.end)}"
    )
    return (
        f"{sink} has batch {last.batch_id} of query {last.query_id} up to {_offsets(last.end)}, which the group has "
        f"not committed, and {has}: with other batches its rows would be written twice. Restore the checkpoint of "
        "that query. Or take the rows of that batch out of the sink, and give it another name="
    )


def _offsets(offsets: Mapping[SourcePartition, int]) -> str:
    named = [f"{partition.topic_partition}:{offset}" for partition, offset in sorted(offsets.items())]
    return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
