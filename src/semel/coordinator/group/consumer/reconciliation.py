"""One step of one member towards its target assignment.

First a member gives up what it shall not have. It keeps its epoch until it has said so: what it commits meanwhile is
still good. Then it moves to the target epoch with everything of its target that no other member holds, and gets the
rest as others let go. A member is asked to give up nothing that it keeps, and does not wait to keep what it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from semel.coordinator.group.consumer.records import (
    NO_PARTITIONS,
    AssignedPartition,
    CurrentAssignment,
    MemberState,
    Partitions,
)


def reconciled(
    current: CurrentAssignment,
    *,
    target_epoch: int,
    target: Partitions,
    owners: Mapping[AssignedPartition, str],
    claimed: Collection[AssignedPartition] | None,
) -> CurrentAssignment | None:
    """The member's next assignment, or the same one if it can go no further now.

    ``claimed`` is what the member says it owns; ``None``: it does not say, so it may still own everything. Returns
    ``None`` if the member must begin again.
    """
    match current.state:
        case MemberState.STABLE if current.epoch == target_epoch:
            return current
        case MemberState.UNREVOKED_PARTITIONS if _holds(claimed, current.revoking):
            return current
        case MemberState.UNKNOWN if claimed is None or claimed:
            return None
    following = _following(current, target_epoch, target, owners, claimed)
    return current if replace(following, previous_epoch=current.previous_epoch) == current else following


def _following(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    owners: Mapping[AssignedPartition, str],
    claimed: Collection[AssignedPartition] | None,
) -> CurrentAssignment:
    kept = current.assigned & target
    surplus = current.assigned - target
    if surplus and _holds(claimed, surplus):
        return replace(current, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=surplus)
    wanted = target - current.assigned
    # What it had to give up itself is free by now: else it would still be waited for.
    free = frozenset(each for each in wanted if owners.get(each, current.member_id) == current.member_id)
    return replace(
        current,
        epoch=target_epoch,
        previous_epoch=current.previous_epoch if current.epoch == target_epoch else current.epoch,
        state=MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | free,
        revoking=NO_PARTITIONS,
    )


def _holds(claimed: Collection[AssignedPartition] | None, partitions: Partitions) -> bool:
    return claimed is None or not partitions.isdisjoint(claimed)
