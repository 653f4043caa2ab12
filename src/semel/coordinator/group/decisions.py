"""The decisions of a group shard: records and answers. It asks for no effect outside its own partition."""

from __future__ import annotations

from typing import Never, TypeAlias, TypeVar

from semel.coordinator.decision import Decision
from semel.coordinator.group.records import GroupRecord

Result = TypeVar("Result")

GroupDecision: TypeAlias = Decision[Result, GroupRecord, Never]
