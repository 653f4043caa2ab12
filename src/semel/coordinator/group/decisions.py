"""The type of a group shard's decisions. They have no effects: a group shard changes only its own partition."""

from __future__ import annotations

from typing import Never, TypeAlias, TypeVar

from semel.coordinator.decision import Decision
from semel.coordinator.group.records import GroupRecord

Result = TypeVar("Result")

GroupDecision: TypeAlias = Decision[Result, GroupRecord, Never]
