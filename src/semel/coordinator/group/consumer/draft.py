"""The draft of a consumer group's next state, and the records that lead to it.

Each record is replayed at once into a copy of the group, by the same ``replay`` that runs after the append. So a later
step of a decision sees the effect of its earlier steps, and the group itself does not change before the append.
"""

from __future__ import annotations

from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import ConsumerGroupRecord, ConsumerGroupTombstone


class Draft:
    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        """The group, or from the first record on its copy. Callers only read it."""
        self.records: list[ConsumerGroupRecord | ConsumerGroupTombstone] = []

    def write(self, record: ConsumerGroupRecord | ConsumerGroupTombstone) -> None:
        if not self.records:
            self.group = self.group.copy()
        self.group.replay(record)
        self.records.append(record)
