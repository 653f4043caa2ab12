"""What clients did, written down while they do it, and closed for those that die in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from semel.client.values import ConsumerRecord, RecordMetadata
from semel.testing.checker import CheckedOperation, Outcome, Polled, Sent
from semel.types import TopicPartition


class Time(Protocol):
    def __call__(self) -> float: ...


@dataclass(slots=True)
class Pending:
    """An operation under way. ``commit_attempted``: from here on it may happen although its client is gone."""

    process: str
    began_ms: float
    actions: list[Sent | Polled] = field(default_factory=list)
    commit_attempted: bool = False
    repositioned: set[TopicPartition] = field(default_factory=set)

    def sent(self, topic: str, partition: int, value: bytes) -> int:
        """Returns the number by which ``acknowledged`` knows it."""
        self.actions.append(Sent(TopicPartition(topic, partition), value))
        return len(self.actions) - 1

    def acknowledged(self, number: int, metadata: RecordMetadata) -> None:
        action = self.actions[number]
        assert isinstance(action, Sent)
        assert action.partition == (metadata.topic, metadata.partition)
        self.actions[number] = Sent(action.partition, action.value, metadata.offset)

    def polled(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            assert record.value is not None
            place = TopicPartition(record.topic, record.partition)
            self.actions.append(Polled(place, record.value, record.offset))


class History:
    def __init__(self, time: Time) -> None:
        self.operations: list[CheckedOperation] = []
        self._time = time
        self._pending: dict[int, Pending] = {}

    def begin(self, process: str) -> Pending:
        pending = Pending(process, self._time() * 1000)
        self._pending[id(pending)] = pending
        return pending

    def end(self, pending: Pending, outcome: Outcome) -> None:
        del self._pending[id(pending)]
        self.operations.append(
            CheckedOperation(
                pending.process,
                outcome,
                tuple(pending.actions),
                pending.began_ms,
                self._time() * 1000,
                frozenset(pending.repositioned),
            )
        )

    def died(self, process: str) -> None:
        """The client is gone. What it had not tried to commit never will be."""
        for pending in [pending for pending in self._pending.values() if pending.process == process]:
            self.end(pending, Outcome.INFO if pending.commit_attempted else Outcome.FAIL)

    @property
    def is_complete(self) -> bool:
        return not self._pending
