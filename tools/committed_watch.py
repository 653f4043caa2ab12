"""Polls a group's committed offsets: they must never decrease, and never be lower than an acknowledged commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tools.single_requests import send_request

_PAUSE_S: Final = 0.1


class CommittedWatch:
    """Polls the committed offsets of one group in a thread.

    ``acknowledged`` returns the offsets whose commits were acknowledged to members. It is called before the broker is
    asked, so its result is never newer.
    """

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
        # Without require_stable: the end of a transaction can only increase the offsets that are returned here.
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
        """Remember an offset that was returned; record an anomaly if it should have been higher."""
        before = max(self.offsets[partition], acknowledged.get(partition, 0))
        if offset < before:
            self.anomalies.append(f"{self._group}: the offset of partition {partition} went from {before} to {offset}")
        self.offsets[partition] = offset

    def _look_until_stopped(self) -> None:
        while not self._stopping.wait(_PAUSE_S):
            acknowledged = dict(self._acknowledged())
            try:
                answer = send_request(self._bootstrap_servers, ApiKey.OFFSET_FETCH, 7, self._request)
            except OSError:
                continue  # The broker cannot be reached now.
            if answer.error_code != ErrorCode.NONE:
                continue
            self.looks += 1
            for found in answer.topics[0].partitions:
                self.compare(found.partition_index, found.committed_offset or 0, acknowledged)
