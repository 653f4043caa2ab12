"""One step of one member towards its target assignment.

First a member revokes the partitions that are not in its target. It keeps its epoch until it has confirmed that, so
that the offsets that it commits meanwhile are accepted. Then it moves to the target epoch, with those partitions of its
target that no other member owns, and gets the others when their owners have revoked them. A member never has to revoke
a partition that is in its target, and keeps such a partition without waiting.
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
    """Return the member's next assignment, or the same one if it cannot advance now.

    ``claimed`` has the partitions that the member says it owns; ``None``: it does not say, so it may still own all of
    them. Returns ``None`` if the member must join again.
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
    # A partition that this member had to revoke is free by now: otherwise ``reconciled`` would still wait for it.
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
