"""The topics of the cluster at one moment, as a group shard reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol
from uuid import UUID


class TopicView(NamedTuple):
    name: str
    topic_id: UUID
    partition_count: int


class TopicsView(Protocol):
    """The topics at one moment. The view does not change."""

    @property
    def version(self) -> int:
        """A number that changes whenever a topic is created, deleted or gets more partitions.

        A caller that has computed something from the same version need not compute it again.
        """

    def by_name(self, name: str) -> TopicView | None: ...

    def by_id(self, topic_id: UUID) -> TopicView | None: ...

    def names(self) -> Iterable[str]:
        """All topics, in an order that is the same in every run."""
