"""What an offset shard remembers. Nothing changes it but ``replay`` and ``replay_marker``, in the order of the log."""

from __future__ import annotations

from semel.coordinator.group.classic.group import SIMPLE_GROUP
from semel.coordinator.group.membership import Groups, Membership, Retention
from semel.coordinator.group.offsets.committed import CommittedOffsets, StoredOffset
from semel.coordinator.group.offsets.expiry import GroupsToLookAt, expires_ms
from semel.coordinator.group.offsets.pending import PendingOffsets
from semel.coordinator.group.records import GroupRecord, OffsetCommit, OffsetTombstone
from semel.coordinator.group.settings import OffsetSettings


class OffsetState:
    def __init__(self, settings: OffsetSettings, groups: Groups) -> None:
        self.settings = settings
        self.groups = groups
        self.committed = CommittedOffsets()
        self.pending = PendingOffsets()
        self.to_look_at = GroupsToLookAt()

    def membership(self, group_id: str) -> Membership | None:
        """The group, if it exists: one without members does for as long as it has an offset, committed or pending."""
        membership = self.groups.membership(group_id)
        if membership is None and (self.committed.has_group(group_id) or self.pending.has_group(group_id)):
            return SIMPLE_GROUP
        return membership

    def replay(self, record: GroupRecord, offset: int, producer_id: int | None, producer_epoch: int | None) -> None:
        match record:
            case OffsetCommit() if producer_id is not None:
                assert producer_epoch is not None, f"a transaction of producer {producer_id} without an epoch"
                self.pending.put(producer_id, producer_epoch, StoredOffset(record, offset))
            case OffsetCommit():
                self._put(StoredOffset(record, offset))
            case OffsetTombstone(key):
                self.committed.remove(key)
                self.pending.remove(key)
                if not self.committed.has_group(key.group_id):
                    self._look_at_in_next_sweep(key.group_id)
            case _:
                self.groups.replay(record)
                self._look_at_in_next_sweep(record.group_id)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        for stored in self.pending.end(producer_id):
            if not committed:
                continue
            # A plain commit may have come between the transaction's offset and its marker. Compaction keeps the higher
            # one, so the lower one must not count now either: the next load would move the group.
            known = self.committed.get(stored.commit.key)
            if known is None or stored.log_offset > known.log_offset:
                self._put(stored)

    def _put(self, stored: StoredOffset) -> None:
        self.committed.put(stored)
        group_id = stored.commit.key.group_id
        membership = self.groups.membership(group_id)
        retention = None if membership is None else membership.retention()
        self.to_look_at.add(group_id, expires_ms(stored.commit, retention or Retention(), self.settings.retention_ms))

    def _look_at_in_next_sweep(self, group_id: str) -> None:
        """Its offsets may now stay for longer or shorter, or nothing may be left of it but its name."""
        if self.membership(group_id) is not None:
            self.to_look_at.add(group_id, 0)
