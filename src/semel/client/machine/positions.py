"""Where a consumer stands in each of its partitions.

The law: ``offset`` is what the application has been given, ``fetch_offset`` what was asked for; between them lies what
is held ready. A seek makes both the same and starts a new ``generation``, so that what was fetched for the old one is
known by it and thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from semel.client.machine.promise import Promise
from semel.errors import StateError
from semel.types import TopicPartition


class Position:
    __slots__ = (
        "fetch_offset",
        "fetching",
        "generation",
        "high_watermark",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "offset",
        "reset_to",
        "retry_ms",
        "topic_partition",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition, reset_to: int | None) -> None:
        self.topic_partition = topic_partition
        self.offset: int | None = None
        self.fetch_offset: int | None = None
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

    def seek(self, offset: int) -> None:
        self.offset = self.fetch_offset = offset
        self.reset_to = None
        self._new_generation()
        waiting, self.waiting = self.waiting, []
        for promise in waiting:
            promise.fulfil(offset)

    def reset(self, timestamp: int) -> None:
        """Go to the offset of a time, once it is known."""
        self.offset = self.fetch_offset = None
        self.reset_to = timestamp
        self._new_generation()

    def fail(self, error: Exception) -> None:
        """There is no way to a position: whoever waits for it is told."""
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
    """The partitions that a consumer reads. Whoever was asked for last stands last."""

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, Position] = {}

    def assign(self, partitions: Iterable[TopicPartition], reset_to: int | None) -> None:
        """Read these and no others; those that were read before keep their place."""
        wanted = dict.fromkeys(partitions)
        for gone in [topic_partition for topic_partition in self._positions if topic_partition not in wanted]:
            self._positions.pop(gone).fail(StateError(f"{gone} is no longer assigned"))
        for topic_partition in wanted:
            if topic_partition not in self._positions:
                self._positions[topic_partition] = Position(topic_partition, reset_to)

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

    def served(self, position: Position) -> None:
        """It was asked for: the others come first next time."""
        self._positions[position.topic_partition] = self._positions.pop(position.topic_partition)
