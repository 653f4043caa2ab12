"""Records of a coordinator that no request waits for: synced with what is written next, or a moment later.

COMPLETE is such a record. The transaction is decided and its markers are in place; if a power cut takes COMPLETE, the
next start finds PREPARE and delivers the markers again, which changes nothing. So it need not cost a sync of its own,
for which the producer's next transaction would have to wait: that one brings the sync which covers both.
"""

from __future__ import annotations

from typing import Final

from semel.broker.waiting.deadlines import Deadlines
from semel.log.partition_log import PartitionLog

# A reader of the partition sees no more than what is synced, and should not be kept from it for long.
SYNC_WITHIN_MS: Final = 20


class DeferredSync:
    """Of one partition."""

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
