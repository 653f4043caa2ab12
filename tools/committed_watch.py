"""Looks at a group's committed offsets all the time: they never go back, and never behind what was acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tools.asking import ask

_PAUSE_S: Final = 0.1


class CommittedWatch:
    """``acknowledged`` says what members were told is committed; it is asked before the broker is, so it is older."""

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        topic: str,
        partitions: int,
        acknowledged: Callable[[], Mapping[int, int]],
    ) -> None:
        self.offsets = [0] * partitions
        self.anomalies: list[str] = []
        self.looks = 0
        self._bootstrap_servers = bootstrap_servers
        self._group = group
        # Not only stable ones: a transaction that is decided adds to what is seen here, and takes nothing away.
        self._request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, list(range(partitions)))])
        self._acknowledged = acknowledged
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_until_stopped, name="committed-watch", daemon=True)

    def __enter__(self) -> CommittedWatch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._thread.join()

    def compare(self, partition: int, offset: int, acknowledged: Mapping[int, int]) -> None:
        """Remember an offset that was found, and whether it should have been higher."""
        before = max(self.offsets[partition], acknowledged.get(partition, 0))
        if offset < before:
            self.anomalies.append(f"{self._group}: the offset of partition {partition} went from {before} to {offset}")
        self.offsets[partition] = offset

    def _look_until_stopped(self) -> None:
        while not self._stopping.wait(_PAUSE_S):
            acknowledged = dict(self._acknowledged())
            try:
                answer = ask(self._bootstrap_servers, ApiKey.OFFSET_FETCH, 7, self._request)
            except OSError:
                continue  # The broker is away.
            if answer.error_code != ErrorCode.NONE:
                continue
            self.looks += 1
            for found in answer.topics[0].partitions:
                self.compare(found.partition_index, found.committed_offset or 0, acknowledged)
