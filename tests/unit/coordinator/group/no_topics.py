"""A cluster without topics, for groups of the classic protocol: their coordinator does not look at topics."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from semel.coordinator.group.topics import TopicView


class NoTopics:
    """Implements ``TopicsView``."""

    version = 0

    def by_name(self, name: str) -> TopicView | None:
        return None

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return None

    def names(self) -> Iterable[str]:
        return ()
