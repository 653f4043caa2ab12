"""A Fetch request that waits for records (a long poll).

It watches its partitions and adds up the bytes that become visible in them, without reading, until there are enough.
Then all partitions are read once, and the request is answered. Only a read_committed fetch must read before that, where
a transaction hides some of the visible records, and only when the last stable offset has moved.

The law: the request is answered once, when ``min_bytes`` have become visible, when a partition has failed, or when
``max_wait_ms`` is over. If there is no memory for its response at that moment, it is read and answered when there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from semel.broker.fetch.reading import Reading
from semel.broker.network.request import Request
from semel.broker.partitions.partitions import Partition
from semel.broker.waiting.deadlines import Deadlines
from semel.errors import ErrorCode


class _Seen(NamedTuple):
    visible_bytes: int
    high_watermark: int
    last_stable_offset: int


class DelayedFetch:
    """A Fetch request that waits for records, as a ``DelayedOperation``."""

    __slots__ = (
        "_available_bytes",
        "_committed_only",
        "_deadlines",
        "_min_bytes",
        "_read",
        "_request",
        "_respond",
        "_seen",
        "_ticket",
    )

    def __init__(
        self,
        request: Request,
        partitions: list[Partition],
        *,
        available_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        committed_only: bool,
        deadlines: Deadlines,
        read: Callable[[], Reading],
        respond: Callable[[Reading], object],
    ) -> None:
        self._request = request
        self._available_bytes = available_bytes
        self._min_bytes = min_bytes
        self._committed_only = committed_only
        self._deadlines = deadlines
        self._read = read
        self._respond = respond
        self._seen = {partition: _look(partition) for partition in partitions}
        for partition in partitions:
            partition.watch(self)
        self._ticket = deadlines.add(self, max_wait_ms)
        request.delay(self, hold=True)

    def committed(self, token: object) -> None:
        """Called when more records of a partition are visible, or its last stable offset has moved."""
        partition = cast(Partition, token)
        before = self._seen[partition]
        now = self._seen[partition] = _look(partition)
        if not self._committed_only:
            self._came(now.visible_bytes - before.visible_bytes)
        elif now.last_stable_offset != before.last_stable_offset:
            if before.last_stable_offset == before.high_watermark and now.last_stable_offset == now.high_watermark:
                self._came(now.visible_bytes - before.visible_bytes)
            else:
                self._look_again()

    def failed(self, token: object, code: ErrorCode) -> None:
        """Called when a partition went offline, was deleted, or is no longer led here: reading it returns the error."""
        self._complete()

    def expired(self) -> None:
        self._complete()

    def abandoned(self) -> None:
        self._stop()
        self._request.forget_room(self._answer)

    def _came(self, size_bytes: int) -> None:
        self._available_bytes += size_bytes
        if self._available_bytes >= self._min_bytes:
            self._complete()

    def _look_again(self) -> None:
        reading = self._read()
        self._available_bytes = reading.size_bytes
        if reading.urgent or reading.size_bytes >= self._min_bytes:
            self._complete(reading)

    def _complete(self, reading: Reading | None = None) -> None:
        self._stop()
        if self._request.lacks_room and (reading or self._read()).must_wait_for_room:
            self._request.wait_for_room(self._answer)
        else:
            self._answer(reading)

    def _answer(self, reading: Reading | None = None) -> None:
        self._request.answer_delayed(lambda: self._respond(reading or self._read()))

    def _stop(self) -> None:
        self._deadlines.discard(self, self._ticket)
        for partition in self._seen:
            partition.unwatch(self)


def _look(partition: Partition) -> _Seen:
    visible_bytes = partition.visible_bytes()
    return _Seen(visible_bytes, partition.log.high_watermark, partition.log.last_stable_offset)
