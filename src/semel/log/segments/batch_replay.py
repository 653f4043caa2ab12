"""Replay of one batch: what a batch that is in the log changes in the producer state and in the transaction index.

Append and recovery both call this, so a log that was loaded has the same state as one that was appended to.
"""

from __future__ import annotations

from semel.log.producers.producer_state import ProducerStates
from semel.log.segments.segment import Segment
from semel.log.segments.transaction_index import AbortedTransaction
from semel.wire.control import EndTransactionMarker
from semel.wire.records import BatchHeader


def replay_batch(
    producers: ProducerStates,
    segment: Segment,
    header: BatchHeader,
    marker: EndTransactionMarker | None,
    now_ms: int | None,
) -> None:
    """Replay a batch of ``segment``. An abort marker adds an entry to the segment's transaction index."""
    completed = producers.replay(header, marker, now_ms)
    if completed is not None and not completed.committed:
        undecided = producers.first_undecided_offset
        segment.transaction_index.append(
            AbortedTransaction(
                producer_id=completed.producer_id,
                first_offset=completed.first_offset,
                last_offset=completed.last_offset,
                last_stable_offset=completed.last_offset + 1 if undecided is None else undecided,
            )
        )
