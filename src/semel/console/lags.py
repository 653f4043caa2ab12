"""How many records groups have still to read.

The difference of two offsets is an upper bound: markers and aborted records have offsets, and consumers do not get
them. Where the difference is small the records are counted, so that a lag reaches 0; the count is kept for as long as
neither offset moves. Where it is large, counting would mean to read it all, and the bound is shown as what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from semel.console.connections import Connection
from semel.console.questions import Ends
from semel.errors import KafkaError
from semel.inspection.lag import readable_after
from semel.types import TopicPartition

COUNTED_MAX: Final = 1_000
_KEPT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Lag:
    records: int
    is_exact: bool = True

    def __add__(self, other: Lag) -> Lag:
        return Lag(self.records + other.records, self.is_exact and other.is_exact)


NO_LAG: Final = Lag(0)


def lag_of(connection: Connection, partition: TopicPartition, committed: int, ends: Ends) -> Lag:
    """Of a group that has committed an offset of this partition."""
    behind = ends.stable - max(committed, ends.start)
    if behind <= 0:
        return NO_LAG
    if behind > COUNTED_MAX:
        return Lag(behind, is_exact=False)
    offset = max(committed, ends.start)
    try:
        counted = connection.answers.get(
            ("lag", partition, offset, ends.stable),
            _KEPT_S,
            lambda: readable_after(connection.admin, partition, offset),
        )
    except KafkaError:
        return Lag(behind, is_exact=False)  # This user may not read it, or it was deleted meanwhile.
    return Lag(min(counted, behind))


def total(lags: Iterable[Lag]) -> Lag:
    return sum(lags, NO_LAG)


def group_lag(
    connection: Connection, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, Ends]
) -> Lag:
    """Over all partitions that are there."""
    return total(
        lag_of(connection, partition, offset, ends[partition])
        for partition, offset in offsets.items()
        if partition in ends
    )
