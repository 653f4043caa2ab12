"""The committed offsets of a shard, by group, with an index by topic for the deletion of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from semel.coordinator.group.records import OffsetCommit, OffsetKey


class StoredOffset(NamedTuple):
    """A committed offset and the log offset of its record: of two for one partition, the higher log offset counts."""

    commit: OffsetCommit
    log_offset: int


Offsets: TypeAlias = dict[int, StoredOffset]

_NO_TOPICS: Final[Mapping[str, Offsets]] = MappingProxyType({})


class CommittedOffsets:
    def __init__(self) -> None:
        self._topics: dict[str, dict[str, Offsets]] = {}
        # The inner dicts are used as ordered sets: the order of a ``set`` differs between runs, and would decide the
        # order of records in the log.
        self._groups_of_topic: dict[str, dict[str, None]] = {}

    def __contains__(self, key: OffsetKey) -> bool:
        return self.get(key) is not None

    def get(self, key: OffsetKey) -> StoredOffset | None:
        offsets = self._topics.get(key.group_id, _NO_TOPICS).get(key.topic)
        return None if offsets is None else offsets.get(key.partition)

    def group_ids(self) -> Iterable[str]:
        return self._topics

    def has_group(self, group_id: str) -> bool:
        return group_id in self._topics

    def count(self, group_id: str) -> int:
        """How many offsets the group has."""
        return sum(map(len, self._topics.get(group_id, _NO_TOPICS).values()))

    def of_group(self, group_id: str) -> Iterator[StoredOffset]:
        for offsets in self._topics.get(group_id, _NO_TOPICS).values():
            yield from offsets.values()

    def topics_of(self, group_id: str) -> Mapping[str, Offsets]:
        return self._topics.get(group_id, _NO_TOPICS)

    def groups_of_topic(self, topic: str) -> list[str]:
        """The ids of the groups that have an offset of the topic."""
        return list(self._groups_of_topic.get(topic, ()))

    def keys_of_topic(self, group_id: str, topic: str) -> list[OffsetKey]:
        """The keys of a group's offsets of the topic."""
        return [OffsetKey(group_id, topic, partition) for partition in self.topics_of(group_id).get(topic, ())]

    def put(self, stored: StoredOffset) -> None:
        group_id, topic, partition = stored.commit.key
        topics = self._topics.setdefault(group_id, {})
        if topic not in topics:
            topics[topic] = {}
            self._groups_of_topic.setdefault(topic, {})[group_id] = None
        topics[topic][partition] = stored

    def remove(self, key: OffsetKey) -> None:
        if key not in self:
            return
        group_id, topic, partition = key
        topics, groups = self._topics[group_id], self._groups_of_topic[topic]
        del topics[topic][partition]
        if not topics[topic]:
            del topics[topic], groups[group_id]
        if not topics:
            del self._topics[group_id]
        if not groups:
            del self._groups_of_topic[topic]
