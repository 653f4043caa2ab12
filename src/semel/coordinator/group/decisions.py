"""What handlers of a group shard decide."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from semel.coordinator.decision import Decision
from semel.coordinator.group.effects import Answer
from semel.coordinator.group.records import GroupRecord

Result = TypeVar("Result")

GroupDecision: TypeAlias = Decision[Result, GroupRecord, Answer]
