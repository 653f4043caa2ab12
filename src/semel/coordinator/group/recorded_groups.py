"""Groups of the classic protocol as the log left them: generation and members of the last completed rebalance.

Nobody joins or leaves here. A member that the log knows may go on committing under its generation, others are refused,
and a group whose members the log knows keeps its offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.coordinator.group.membership import Membership, Retention
from semel.coordinator.group.records import GroupMetadata, GroupRecord, GroupTombstone
from semel.errors import ErrorCode


class RecordedGroups:
    """Implements ``Groups`` with what is in the log, and nothing else."""

    def __init__(self) -> None:
        self._groups: dict[str, ClassicMembership] = {}

    def membership(self, group_id: str) -> Membership | None:
        return self._groups.get(group_id)

    def tombstones(self, group_id: str) -> tuple[GroupRecord, ...]:
        return (GroupTombstone(group_id),) if group_id in self._groups else ()

    def replay(self, record: GroupRecord) -> None:
        match record:
            case GroupMetadata():
                self._groups[record.group_id] = ClassicMembership(record)
            case GroupTombstone():
                self._groups.pop(record.group_id, None)


@dataclass(frozen=True, slots=True)
class ClassicMembership:
    """The rules of the classic protocol for a group that is empty or stable. Implements ``Membership``."""

    group: GroupMetadata

    @property
    def is_empty(self) -> bool:
        return not self.group.members

    def validate_offset_commit(
        self,
        *,
        generation: int | None,
        member_id: str,
        instance_id: str | None,
        transactional: bool,
        api_version: int,
    ) -> ErrorCode:
        if generation is None and self.is_empty:
            return ErrorCode.NONE
        if generation is None and not member_id and instance_id is None:
            # TxnOffsetCommit says who commits from version 3 on only, and earlier versions must still work.
            return ErrorCode.NONE if transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = self._validate_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int | None) -> ErrorCode:
        return ErrorCode.NONE

    def validate_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def is_subscribed(self, topic: str) -> bool:
        return not self.is_empty

    def retention(self) -> Retention | None:
        if not self.is_empty:
            return None
        return Retention(self.group.state_changed_ms if self.group.protocol_type else None)

    def _validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        members = self.group.members
        if instance_id is not None:
            owner = next((member.member_id for member in members if member.instance_id == instance_id), None)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if not any(member.member_id == member_id for member in members):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE


SIMPLE_GROUP: Final = ClassicMembership(GroupMetadata("", "", 0, None, None, None, ()))
"""A group that only stores offsets: it exists for as long as it has one, committed or pending."""
