"""The topics of a cluster image, as a group shard sees them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from semel.coordinator.group.topics import TopicView
from semel.metadata.image import ClusterImage, Topic


@dataclass(frozen=True, slots=True)
class ImageTopics:
    """The topics of one image. Implements ``TopicsView``."""

    image: ClusterImage

    @property
    def version(self) -> int:
        return self.image.version

    def by_name(self, name: str) -> TopicView | None:
        return _view(self.image.topics.get(name))

    def by_id(self, topic_id: UUID) -> TopicView | None:
        return _view(self.image.topics_by_id.get(topic_id))

    def names(self) -> Iterable[str]:
        return self.image.topics


def _view(topic: Topic | None) -> TopicView | None:
    return None if topic is None else TopicView(topic.name, topic.id, len(topic.partitions))
