"""The lag of groups: how many records a group has still to read.

The difference of two offsets is only an upper bound: markers and aborted records have offsets, and consumers do not
receive them. If the difference is small, the records are read and counted, so that a lag can reach 0; the count is
cached until one of the offsets changes. If it is large, the upper bound is shown, and marked as one. If there are many
partitions, some of them are counted each time that a page is rendered, until all have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from semel.console.cached_requests import Ends
from semel.console.connections import Connection
from semel.errors import KafkaError
from semel.inspection.lag import readable_after
from semel.types import TopicPartition

COUNTED_MAX: Final = 1_000
"""The largest difference of offsets for which records are counted."""
COUNTS_MAX: Final = 20
"""How many counts, each a request, are made in one rendering of a page."""
_KEPT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Lag:
    records: int
    is_exact: bool = True

    def __add__(self, other: Lag) -> Lag:
        return Lag(self.records + other.records, self.is_exact and other.is_exact)


NO_LAG: Final = Lag(0)


class LagCounter:
    """Computes the lags on one page. It counts at most ``counts_max`` of them; later renderings count the others."""

    def __init__(self, connection: Connection, counts_max: int = COUNTS_MAX) -> None:
        self._connection = connection
        self._left = counts_max

    def lag_of(self, partition: TopicPartition, committed: int, ends: Ends) -> Lag:
        """Return the lag of a group in a partition in which it has committed this offset."""
        offset = max(committed, ends.start)
        behind = ends.stable - offset
        if behind <= 0:
            return NO_LAG
        if behind > COUNTED_MAX:
            return Lag(behind, is_exact=False)
        answers, question = self._connection.counts, (partition, offset, ends.stable)
        if not answers.has_fresh(question, _KEPT_S):
            if self._left == 0:
                return Lag(behind, is_exact=False)
            self._left -= 1
        admin = self._connection.admin
        try:
            counted = answers.get(question, _KEPT_S, lambda: readable_after(admin, partition, offset))
        except KafkaError:
            return Lag(behind, is_exact=False)  # This user may not read the topic, or it was deleted meanwhile.
        return Lag(min(counted, behind))

    def group_lag(self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, Ends]) -> Lag:
        """Return the sum of the group's lags in all partitions that exist."""
        return total(
            self.lag_of(partition, offset, ends[partition])
            for partition, offset in offsets.items()
            if partition in ends
        )


def total(lags: Iterable[Lag]) -> Lag:
    return sum(lags, NO_LAG)
