"""When offsets expire, and which groups are worth a look.

An offset with an explicit expiry goes at that time; any other one when the retention time has passed since the group's
members went away, or, in a group without members, since its own commit.
"""

from __future__ import annotations

from heapq import heappop, heappush

from semel.coordinator.group.membership import Retention
from semel.coordinator.group.records import OffsetCommit


def expires_ms(commit: OffsetCommit, retention: Retention, retention_ms: int) -> int:
    """The first millisecond at which the offset is expired."""
    if commit.expires_ms is not None:
        return commit.expires_ms
    since_ms = commit.committed_ms if retention.since_ms is None else retention.since_ms
    return since_ms + retention_ms


class GroupsToLookAt:
    """Groups, in the order of the time at which one of their offsets may have expired.

    An index, and no part of the state: a group stands here no later than its first offset expires, and a look that
    comes too early costs nothing but the look. So a sweep touches the groups that are due, however many there are, and
    a commit that makes a group's time later changes nothing here.
    """

    def __init__(self) -> None:
        self._queue: list[tuple[int, str]] = []
        self._earliest: dict[str, int] = {}

    def add(self, group_id: str, due_ms: int) -> None:
        earliest = self._earliest.get(group_id)
        if earliest is None or due_ms < earliest:
            self._earliest[group_id] = due_ms
            heappush(self._queue, (due_ms, group_id))

    def has_due(self, now_ms: int) -> bool:
        return bool(self._queue) and self._queue[0][0] <= now_ms

    def take_due(self, now_ms: int, count_max: int) -> list[str]:
        """Groups that are due. The caller adds each again, for as long as something of it can expire."""
        due: list[str] = []
        while len(due) < count_max and self.has_due(now_ms):
            due_ms, group_id = heappop(self._queue)
            if self._earliest.get(group_id) == due_ms:
                del self._earliest[group_id]
                due.append(group_id)
        return due
