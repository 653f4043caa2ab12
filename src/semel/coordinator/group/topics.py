"""The topics of the cluster, as a group shard sees them at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol
from uuid import UUID


class TopicView(NamedTuple):
    name: str
    topic_id: UUID
    partition_count: int


class TopicsView(Protocol):
    """The topics as they are at one moment. Two calls with the same view see the same topics."""

    @property
    def version(self) -> int:
        """Another one whenever a topic came, went or grew: a caller that has seen this version need not look again."""

    def by_name(self, name: str) -> TopicView | None: ...

    def by_id(self, topic_id: UUID) -> TopicView | None: ...

    def names(self) -> Iterable[str]:
        """All topics, in an order that is the same in every run."""
