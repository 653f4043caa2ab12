"""A Produce request whose records are appended and not yet safe.

The law: it is answered once, when the last of its partitions is committed or has failed, or when its time is up; what
is not safe by then is answered REQUEST_TIMED_OUT, which says "unknown", never "no".
"""

from __future__ import annotations

from typing import cast

from semel.broker.network.request import Request
from semel.broker.partitions.partitions import Partition
from semel.broker.waiting.deadlines import Deadlines
from semel.errors import ErrorCode
from semel.wire.messages.produce import PartitionProduceResponse, ProduceResponse


class DelayedProduce:
    __slots__ = ("_deadlines", "_request", "_response", "_ticket", "_waiting")

    def __init__(self, request: Request, response: ProduceResponse, deadlines: Deadlines, timeout_ms: int) -> None:
        self._request = request
        self._response = response
        self._waiting: dict[int, PartitionProduceResponse] = {}
        self._deadlines = deadlines
        self._ticket = deadlines.add(self, timeout_ms)
        # The requests behind this one are looked at meanwhile: they share the next sync.
        request.delay(self, hold=False)

    def wait_for(self, partition: Partition, last_offset: int, answer: PartitionProduceResponse) -> None:
        self._waiting[id(answer)] = answer
        partition.when_committed(last_offset, self, answer)

    def committed(self, token: object) -> None:
        if self._waiting.pop(id(token), None) is not None and not self._waiting:
            self._finish()

    def failed(self, token: object, code: ErrorCode) -> None:
        if id(token) in self._waiting:
            _refuse(cast(PartitionProduceResponse, token), code)
            self.committed(token)

    def expired(self) -> None:
        for answer in self._waiting.values():
            _refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
        self._waiting.clear()
        self._finish()

    def abandoned(self) -> None:
        self._waiting.clear()
        self._deadlines.discard(self, self._ticket)

    def _finish(self) -> None:
        self._deadlines.discard(self, self._ticket)
        self._request.answer_delayed(lambda: self._response)


def _refuse(answer: PartitionProduceResponse, code: ErrorCode) -> None:
    answer.error_code = code
    answer.base_offset = None
    answer.log_append_time_ms = None
