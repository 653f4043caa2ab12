"""What the members of a group did and were told, and what that must never show.

No partition is read by two members of one generation. A committed offset never goes back, nor behind what a member was
told is committed, whatever has failed in between; except where plain commits come late. Such a one says how far, but
not when it was asked for: it takes back what the same member has committed after it in the same generation, in Kafka
too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from semel.client.values import ConsumerRecord, GroupMetadata
from semel.types import TopicPartition


class Ledger:
    def __init__(self, *, commits_come_late: bool) -> None:
        self.commits_come_late = commits_come_late
        self.processed: Counter[bytes] = Counter()
        """How often each value was worked on and then committed, or was to be."""
        self._watching: dict[tuple[int, TopicPartition], str] = {}
        self._told: dict[TopicPartition, int] = {}
        self._seen: dict[TopicPartition, int] = {}

    def read(self, member: GroupMetadata, records: Iterable[ConsumerRecord]) -> None:
        """The member was handed these."""
        for partition in {TopicPartition(record.topic, record.partition) for record in records}:
            generation = member.generation_id
            assert generation is not None, f"{partition} is read by {member.member_id}, which is not a member"
            first = self._watching.setdefault((generation, partition), owner_of(member))
            assert first == owner_of(member), (
                f"two members read {partition} in generation {generation}: {first} and {owner_of(member)}"
            )

    def told(self, partition: TopicPartition, offset: int) -> None:
        """A member was told that this is committed."""
        self._told[partition] = max(offset, self._told.get(partition, 0))

    def expectation(self) -> dict[TopicPartition, int]:
        """What whoever asks from now on must see at least."""
        partitions = self._told.keys() | self._seen.keys()
        return {one: max(self._told.get(one, 0), self._seen.get(one, 0)) for one in partitions}

    def seen(self, expectation: dict[TopicPartition, int], partition: TopicPartition, offset: int) -> None:
        """This is committed, says the coordinator. ``expectation`` is from before it was asked."""
        least = 0 if self.commits_come_late else expectation.get(partition, 0)
        assert offset >= least, f"the committed offset of {partition} goes back from {least} to {offset}"
        self._seen[partition] = max(offset, self._seen.get(partition, 0))


def owner_of(member: GroupMetadata) -> str:
    """Under which name partitions are its own: a static member keeps them, as whichever member it comes back."""
    return member.group_instance_id or member.member_id
