"""Gaps that compaction has left in a log. They say since when a history that is read from the log is complete.

Any of the missing records may have belonged to the history, so it is known to be complete only after the last gap.
"""

from __future__ import annotations

from semel.inspection.times import time_text
from semel.wire.records import BatchHeader


class CompactionGaps:
    """Finds the last gap in a partition. ``passed`` must be called with every batch, in order."""

    def __init__(self) -> None:
        self.complete_since: str | None = None
        """The time of the batch after the last gap; ``None`` if nothing is missing."""
        self._expected = 0

    def passed(self, header: BatchHeader) -> None:
        if header.base_offset > self._expected or header.record_count < header.last_offset_delta + 1:
            self.complete_since = time_text(header.max_timestamp)
        self._expected = header.next_offset


def since_text(complete_since: str | None, beginning: str) -> str:
    return f"from {beginning} on" if complete_since is None else f"since {complete_since}"
