"""The state of an offset shard. Only ``replay`` and ``replay_marker`` change its offsets, in the order of the log."""

from __future__ import annotations

from semel.coordinator.deadlines import Deadlines
from semel.coordinator.group.classic.group import SIMPLE_GROUP
from semel.coordinator.group.membership import Groups, Membership, Retention
from semel.coordinator.group.offsets.committed import CommittedOffsets, StoredOffset
from semel.coordinator.group.offsets.expiry import expires_ms
from semel.coordinator.group.offsets.pending import PendingOffsets
from semel.coordinator.group.records import OffsetCommit, OffsetTombstone
from semel.coordinator.group.settings import OffsetSettings
from semel.types import ProducerIdentity


class OffsetState:
    def __init__(self, settings: OffsetSettings, groups: Groups) -> None:
        self.settings = settings
        self.groups = groups
        self.committed = CommittedOffsets()
        self.pending = PendingOffsets()
        self.expiry: Deadlines[str] = Deadlines()
        """When to examine a group for expiry: no later than its first offset expires. Examining it too early does no
        harm, so a commit that makes an offset expire later does not move the deadline."""
        self._last_sweep_ms = 0

    def membership(self, group_id: str) -> Membership | None:
        """The group, if it exists. A simple group exists while it has an offset, committed or pending."""
        membership = self.groups.membership(group_id)
        if membership is None and (self.committed.has_group(group_id) or self.pending.has_group(group_id)):
            return SIMPLE_GROUP
        return membership

    def replay(self, record: OffsetCommit | OffsetTombstone, offset: int, producer: ProducerIdentity | None) -> None:
        match record:
            case OffsetCommit() if producer is not None:
                self.pending.put(producer, StoredOffset(record, offset))
            case OffsetCommit():
                self._put(StoredOffset(record, offset))
            case OffsetTombstone(key):
                self.committed.remove(key)
                self.pending.remove(key)
                if not self.committed.has_group(key.group_id):
                    self.group_changed(key.group_id)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        for stored in self.pending.end(producer_id):
            if not committed:
                continue
            # A plain commit may have come between the transaction's offset and its marker. Compaction keeps the higher
            # one, so the lower one must not count now either: the next load would change the group's offset.
            known = self.committed.get(stored.commit.key)
            if known is None or stored.log_offset > known.log_offset:
                self._put(stored)

    def sweep_begins(self, now_ms: int) -> None:
        """Keep a wall clock that was set back since the last sweep from delaying the next examination of a group.

        The last sweep has put off some groups until the millisecond after it: these are due now.
        """
        if now_ms < self._last_sweep_ms:
            self.expiry.shift(now_ms - self._last_sweep_ms - 1)
        self._last_sweep_ms = now_ms

    def _put(self, stored: StoredOffset) -> None:
        self.committed.put(stored)
        group_id = stored.commit.key.group_id
        membership = self.groups.membership(group_id)
        retention = None if membership is None else membership.retention()
        self.expiry.set_earlier(
            group_id, expires_ms(stored.commit, retention or Retention(), self.settings.retention_ms)
        )

    def group_changed(self, group_id: str) -> None:
        """Examine the group at the next expiry: its offsets may now expire at another time, or it may have none."""
        if self.membership(group_id) is not None:
            self.expiry.set_earlier(group_id, 0)
