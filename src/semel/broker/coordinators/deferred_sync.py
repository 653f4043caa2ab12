"""The deferred sync of coordinator records that no request waits for: with the next records, or a moment later.

COMPLETE is such a record. The transaction is decided and its markers are written; if a power cut takes COMPLETE, the
next start finds PREPARE and delivers the markers again, which changes nothing. So COMPLETE needs no sync of its own,
for which the producer's next transaction would have to wait: the sync of that transaction's first record covers both.
"""

from __future__ import annotations

from typing import Final

from semel.broker.waiting.deadlines import Deadlines
from semel.log.partition_log import PartitionLog

# The high watermark waits for the sync, and readers of the partition should not wait for long.
SYNC_WITHIN_MS: Final = 20


class DeferredSync:
    """The deferred sync of one partition's log."""

    __slots__ = ("_deadlines", "_is_set", "_log")

    def __init__(self, log: PartitionLog, deadlines: Deadlines) -> None:
        self._log = log
        self._deadlines = deadlines
        self._is_set = False

    def later(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._deadlines.add(self, SYNC_WITHIN_MS)

    def expired(self) -> None:
        self._is_set = False
        self._log.sync_unawaited()
