"""The positions of a consumer in its partitions (Kafka: ``SubscriptionState``).

The law: ``offset`` is the next offset to return to the application, ``fetch_offset`` the next one to fetch; the records
between them are held ready. A seek makes both the same and starts a new ``generation``, so that records that were
fetched for the old position are recognized and dropped.

Each offset has an epoch beside it: the leader epoch of the record before it. An offset alone does not say which log it
belongs to; with the epoch, a new leader can say whether it has the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from semel.client.machine.connection.promise import Promise
from semel.client.values import OffsetAndMetadata
from semel.errors import StateError
from semel.types import TopicPartition

_GONE: Final = -1


class Position:
    __slots__ = (
        "checked_epoch",
        "fetch_epoch",
        "fetch_offset",
        "fetching",
        "generation",
        "high_watermark",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "offset",
        "offset_epoch",
        "reset_to",
        "retry_ms",
        "topic_partition",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition, reset_to: int | None) -> None:
        self.topic_partition = topic_partition
        self.offset: int | None = None
        self.offset_epoch: int | None = None
        self.fetch_offset: int | None = None
        self.fetch_epoch: int | None = None
        self.checked_epoch: int | None = None
        """The epoch of the leader that is known to have the records that were fetched so far."""
        self.reset_to = reset_to
        """The time, or special time, whose offset is to be looked up; ``None`` when there is nothing to look up."""
        self.generation = 0
        self.fetching = False
        self.retry_ms = 0.0
        self.is_paused = False
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.waiting: list[Promise[int]] = []

    def seek(self, offset: int, leader_epoch: int | None = None) -> None:
        """Continue at this offset. With the epoch of the record before it, the leader is asked for that record."""
        self.offset = self.fetch_offset = offset
        self.offset_epoch = self.fetch_epoch = leader_epoch
        self.checked_epoch = None
        self.reset_to = None
        self._new_generation()
        waiting, self.waiting = self.waiting, []
        for promise in waiting:
            promise.fulfil(offset)

    def reset(self, timestamp: int) -> None:
        """Continue at the offset of a timestamp, once that is looked up."""
        self.offset = self.fetch_offset = None
        self.offset_epoch = self.fetch_epoch = self.checked_epoch = None
        self.reset_to = timestamp
        self._new_generation()

    def has_to_be_checked(self, leader_epoch: int | None) -> bool:
        """Whether fetched records came from an older leader, so that the one with this epoch must be asked for them."""
        if self.fetch_epoch is None or leader_epoch is None:
            return False
        return self.checked_epoch is None or self.checked_epoch < leader_epoch

    def lag(self, *, committed_only: bool) -> int | None:
        """Return how many offsets the position is behind the readable end; ``None`` before the first response.

        Markers have offsets, too. As positions move past them, the lag reaches zero behind the last transaction.
        """
        end = self.last_stable_offset if committed_only else self.high_watermark
        return None if end is None or self.offset is None else max(0, end - self.offset)

    def fail(self, error: Exception) -> None:
        """Fail all calls that wait for the position, because none can be found."""
        waiting, self.waiting = self.waiting, []
        for promise in waiting:
            promise.fail(error)

    def known(self) -> Promise[int]:
        promise: Promise[int] = Promise()
        if self.offset is not None:
            promise.fulfil(self.offset)
        else:
            self.waiting.append(promise)
        return promise

    def _new_generation(self) -> None:
        self.generation += 1
        self.fetching = False
        self.retry_ms = 0.0


class Positions:
    """The positions of all partitions that a consumer reads. The partition that received records last comes last."""

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, Position] = {}
        self._unused_generation = 0
        """A generation that no removed partition had, so that a partition that returns does not use its old records."""

    def assign(self, partitions: Iterable[TopicPartition], reset_to: int | None) -> None:
        """Read these partitions and no others; those that were read before keep their position."""
        wanted = dict.fromkeys(partitions)
        for gone in [topic_partition for topic_partition in self._positions if topic_partition not in wanted]:
            position = self._positions.pop(gone)
            self._unused_generation = max(self._unused_generation, position.generation + 1)
            position.generation = _GONE
            position.fail(StateError(f"{gone} is no longer assigned"))
        for topic_partition in wanted:
            if topic_partition not in self._positions:
                position = self._positions[topic_partition] = Position(topic_partition, reset_to)
                position.generation = self._unused_generation

    def __getitem__(self, topic_partition: TopicPartition) -> Position:
        position = self._positions.get(topic_partition)
        if position is None:
            raise StateError(
                f"{topic_partition} is not assigned to this consumer; assigned are {list(self._positions)}"
            )
        return position

    def get(self, topic_partition: TopicPartition) -> Position | None:
        return self._positions.get(topic_partition)

    def __iter__(self) -> Iterator[Position]:
        return iter(tuple(self._positions.values()))

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self._positions)

    def reached(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each partition behind the records that were returned, where it is known."""
        return {
            topic_partition: OffsetAndMetadata(position.offset, leader_epoch=position.offset_epoch)
            for topic_partition, position in self._positions.items()
            if position.offset is not None
        }

    def served(self, position: Position) -> None:
        """Put a partition that received records last, so that the others come first in the next Fetch."""
        self._positions[position.topic_partition] = self._positions.pop(position.topic_partition)
