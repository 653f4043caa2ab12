"""A group as it will be once what is being decided is written.

Every record is replayed at once into a copy of the group, by the same ``replay`` that will see it later. So a decision
of several steps can look at its own first steps, and the group itself is left alone until the records are appended.
"""

from __future__ import annotations

from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import ConsumerGroupRecord, ConsumerGroupTombstone


class Draft:
    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        """To be read only. The copy, from the first record on."""
        self.records: list[ConsumerGroupRecord | ConsumerGroupTombstone] = []

    def write(self, record: ConsumerGroupRecord | ConsumerGroupTombstone) -> None:
        if not self.records:
            self.group = self.group.copy()
        self.group.replay(record)
        self.records.append(record)
