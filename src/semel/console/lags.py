"""How many records groups have still to read.

The difference of two offsets is an upper bound: markers and aborted records have offsets, and consumers do not get
them. Where the difference is small the records are counted, so that a lag reaches 0; the count is kept for as long as
neither offset moves. Where it is large, counting would mean to read it all, and the bound is shown as what it is. Of
many partitions some are counted each time that a page is put together, until all are.
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
"""So far behind, records are counted."""
COUNTS_MAX: Final = 20
"""So many counts, a request each, are asked for to put a page together."""
_KEPT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Lag:
    records: int
    is_exact: bool = True

    def __add__(self, other: Lag) -> Lag:
        return Lag(self.records + other.records, self.is_exact and other.is_exact)


NO_LAG: Final = Lag(0)


class LagCounter:
    """Computes the lags on one page. Only some are counted each time; the others are exact on a later rendering."""

    def __init__(self, connection: Connection, counts_max: int = COUNTS_MAX) -> None:
        self._connection = connection
        self._left = counts_max

    def lag_of(self, partition: TopicPartition, committed: int, ends: Ends) -> Lag:
        """The lag of a group in one partition, of which it has committed an offset."""
        offset = max(committed, ends.start)
        behind = ends.stable - offset
        if behind <= 0:
            return NO_LAG
        if behind > COUNTED_MAX:
            return Lag(behind, is_exact=False)
        answers, question = self._connection.counts, (partition, offset, ends.stable)
        if not answers.knows(question, _KEPT_S):
            if self._left == 0:
                return Lag(behind, is_exact=False)
            self._left -= 1
        admin = self._connection.admin
        try:
            counted = answers.get(question, _KEPT_S, lambda: readable_after(admin, partition, offset))
        except KafkaError:
            return Lag(behind, is_exact=False)  # This user may not read it, or it was deleted meanwhile.
        return Lag(min(counted, behind))

    def group_lag(self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, Ends]) -> Lag:
        """The sum of the group's lags in all partitions that exist."""
        return total(
            self.lag_of(partition, offset, ends[partition])
            for partition, offset in offsets.items()
            if partition in ends
        )


def total(lags: Iterable[Lag]) -> Lag:
    return sum(lags, NO_LAG)
