"""Metrics of groups: how many are in each state, and how many members they have. Each read looks at all groups."""

from __future__ import annotations

from collections.abc import Iterator

from semel.broker.coordinators.coordinator import Coordinator
from semel.coordinator.group.directory import Group
from semel.coordinator.group.kinds import GroupKind
from semel.coordinator.group.shard import GroupShard


class GroupMetrics:
    def __init__(self, groups: Coordinator[GroupShard]) -> None:
        self._groups = groups

    def count(self, kind: GroupKind, state_name: str) -> int:
        return sum(group.kind is kind and group.state_name == state_name for group in self._all())

    def members(self, kind: GroupKind) -> int:
        return sum(len(group.members) for group in self._all() if group.kind is kind)

    def _all(self) -> Iterator[Group]:
        for runtime in self._groups:
            yield from runtime.shard.directory
