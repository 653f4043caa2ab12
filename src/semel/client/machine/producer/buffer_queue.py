"""Records that cannot be put into a batch yet, because there is no room or because their topic is not known.

They wait in the order in which they came, for max.block.ms at most. Records that wait for room wait in one queue; a
record that has room and waits for a topic waits with others for that topic only, so that one misspelt name does not
hold up the rest.

The law: behind the first entry, as much again as buffer.memory may wait for room, and not more; a caller that sends
more gets an error. Only the first entry may be larger than that: a bulk, which leaves piece by piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from semel.client.machine.producer.batch import Delivery, Flush
from semel.client.machine.producer.bulk import WaitingBulk
from semel.clock import NEVER
from semel.errors import ErrorCode, RetriableError
from semel.wire.records import Headers


@dataclass(slots=True, eq=False)
class WaitingRecord:
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    headers: Headers
    timestamp: int
    delivery: Delivery
    size_bytes: int
    deadline_ms: float
    known_by: int
    """The number of the metadata update that has every partition that existed when this record was sent."""
    flushes: list[Flush] = field(default_factory=list)


Waiting: TypeAlias = WaitingRecord | WaitingBulk


class BufferQueue:
    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._line: deque[Waiting] = deque()
        self._line_bytes = 0
        self._by_topic: dict[str, deque[Waiting]] = {}
        self.is_empty = True
        self.reserved_bytes = 0
        """The bytes of records that wait for a topic, which have their room in the buffer already."""
        self.unplaced: dict[Waiting, None] = {}
        """All records that had to wait and are neither in a batch nor refused, also while they are being placed."""

    @property
    def has_line(self) -> bool:
        return bool(self._line)

    @property
    def begins_with_bulk(self) -> bool:
        return bool(self._line) and isinstance(self._line[0], WaitingBulk)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that records wait for."""
        return tuple(self._by_topic)

    def awaits(self, topic: str) -> bool:
        return topic in self._by_topic

    def wait_for_room(self, record: Waiting) -> None:
        behind_bytes = self._line_bytes - self._line[0].size_bytes if self._line else -record.size_bytes
        if behind_bytes + record.size_bytes > self._size_bytes_max:
            raise RetriableError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"buffer.memory ({self._size_bytes_max} bytes) is used up and as much again waits for room. Wait for "
                "what was sent, or for drain(), before sending more",
            )
        self.unplaced[record] = None
        self._line.append(record)
        self._line_bytes += record.size_bytes
        self.is_empty = False

    def go_first(self, waiting: deque[Waiting]) -> None:
        """Put records that have waited already, for a topic or for room, before all others, in their order."""
        self._line.extendleft(reversed(waiting))
        self._line_bytes += sum(one.size_bytes for one in waiting)
        self._left()

    def wait_for_topic(self, record: Waiting) -> None:
        self.unplaced[record] = None
        self._by_topic.setdefault(record.topic, deque()).append(record)
        self.reserved_bytes += record.size_bytes
        self.is_empty = False

    def next_in_line(self) -> Waiting:
        record = self._line.popleft()
        self._line_bytes -= record.size_bytes
        self._left()
        return record

    def take_topic(self, topic: str) -> Iterator[Waiting]:
        """Take out all records that wait for a topic, in order."""
        waiting = self._by_topic.pop(topic, deque())
        self.reserved_bytes -= sum(record.size_bytes for record in waiting)
        self._left()
        return iter(waiting)

    def take_expired(self, now_ms: float) -> list[tuple[Waiting, str]]:
        """Take out the records that have waited too long, each with what it waited for."""
        return self._take(lambda record: record.deadline_ms <= now_ms)

    def take_all(self) -> list[tuple[Waiting, str]]:
        return self._take(lambda record: True)

    def records(self) -> Iterator[Waiting]:
        for waiting in self._by_topic.values():
            yield from waiting
        yield from self._line

    def next_deadline_ms(self) -> float:
        deadlines = [waiting[0].deadline_ms for waiting in (self._line, *self._by_topic.values()) if waiting]
        return min(deadlines, default=NEVER)

    def _take(self, leaves: Callable[[Waiting], bool]) -> list[tuple[Waiting, str]]:
        # All wait for max.block.ms, so those that have waited too long are at the front.
        taken: list[tuple[Waiting, str]] = []
        for topic in self.topics:
            waiting = self._by_topic[topic]
            while waiting and leaves(waiting[0]):
                record = waiting.popleft()
                self.reserved_bytes -= record.size_bytes
                taken.append((record, "its topic to be known"))
            if not waiting:
                del self._by_topic[topic]
        while self._line and leaves(self._line[0]):
            taken.append((self.next_in_line(), "room in the buffer"))
        self._left()
        return taken

    def _left(self) -> None:
        self.is_empty = not (self._line or self._by_topic)
