"""What a decision of the transaction shard asks the shell to do, once the decision's records are committed."""

from __future__ import annotations

from typing import NamedTuple

from semel.types import TopicPartition


class WriteMarkers(NamedTuple):
    """Write this marker to every partition, until acknowledged; then tell the shard ``markers_written``.

    Doing it twice is harmless: where the producer has no open transaction, a marker changes nothing.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    transaction_version: int
    """2: the marker's epoch is higher than that of the data it ends, and a partition may insist on it."""
