"""Gaps that compaction has left in a log: from when on the history that it tells is whole.

Any of the missing records may have been one of those that are looked for, so a history is known to be whole only behind
the last gap.
"""

from __future__ import annotations

from semel.inspection.times import time_text
from semel.wire.records import BatchHeader


class CompactionGaps:
    """Shown every batch of a partition in order."""

    def __init__(self) -> None:
        self.complete_since: str | None = None
        """The time of the batch behind the last gap; ``None``: nothing is missing at all."""
        self._expected = 0

    def passed(self, header: BatchHeader) -> None:
        if header.base_offset > self._expected or header.record_count < header.last_offset_delta + 1:
            self.complete_since = time_text(header.max_timestamp)
        self._expected = header.next_offset


def since_text(complete_since: str | None, beginning: str) -> str:
    return f"from {beginning} on" if complete_since is None else f"since {complete_since}"
