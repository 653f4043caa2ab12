"""The topics that a consumer needs metadata of: those it reads, its group's, and those in open lookups."""

from __future__ import annotations

from semel.client.machine.connection.cluster_view import TopicView
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer.list_offsets import OffsetLookup
from semel.client.machine.consumer.positions import Positions
from semel.client.machine.group.group import Group
from semel.errors import ErrorCode, Family, KafkaError, client_error, family_of
from semel.types import TopicPartition


class ConsumerTopics:
    """Keeps the metadata of these topics requested. ``errors`` collects the errors for the application."""

    def __init__(
        self,
        metadata: Metadata,
        positions: Positions,
        lookup: OffsetLookup,
        group: Group | None,
        errors: dict[TopicPartition, Exception],
    ) -> None:
        self._metadata = metadata
        self._positions = positions
        self._lookup = lookup
        self._group = group
        self._errors = errors
        self._updates_seen = 0
        self._group_topics: tuple[str, ...] = ()
        self._asked: dict[str, Promise[TopicView]] = {}

    def know(self, topic: str, now_ms: float) -> Promise[TopicView]:
        """Return a promise for the metadata of a topic."""
        promise = self._asked.setdefault(topic, Promise())
        self.refresh(now_ms)
        self._metadata.outdated()
        return promise

    def refresh(self, now_ms: float) -> None:
        """Request metadata of the topics that are needed now: the partitions, the group or the lookups have changed."""
        assigned = [topic for topic, _ in self._positions.partitions]
        if self._group is not None:
            self._group_topics = self._group.topics
            self._metadata.want_all(wanted=self._group.wants_all_topics)
        self._metadata.retain((*assigned, *self._group_topics, *self._lookup.topics(), *self._asked), now_ms)

    def follow_group(self, now_ms: float) -> None:
        """Call ``refresh`` if the group needs other topics now."""
        if self._group is not None and self._group_topics != self._group.topics:
            self.refresh(now_ms)

    def look_at_metadata(self) -> None:
        """After a Metadata response, collect the errors of topics and keep the promises of ``know``."""
        if self._updates_seen == self._metadata.updates:
            return
        self._updates_seen = self._metadata.updates
        for topic, view in self._metadata.view.topics.items():
            if view.error != ErrorCode.NONE and family_of(view.error) is not Family.RETRIABLE:
                text = f"topic {topic!r} cannot be read: the broker answered {view.error.name}"
                self._refused(topic, client_error(view.error, text))
            elif view.partitions and topic in self._asked:
                self._asked.pop(topic).fulfil(view)

    def fail(self, error: Exception) -> None:
        asked, self._asked = self._asked, {}
        for promise in asked.values():
            promise.fail(error)

    def _refused(self, topic: str, error: KafkaError) -> None:
        for topic_partition in self._positions.partitions:
            if topic_partition.topic == topic:
                self._errors[topic_partition] = error
        if topic in self._asked:
            self._asked.pop(topic).fail(error)
        if topic in self._group_topics:
            self._errors[TopicPartition(topic, 0)] = error
