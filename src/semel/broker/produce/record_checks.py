"""Looks into batches that take longer than the event loop may be kept: they are finished by a worker of their own.

The batches that wait are copies, because the buffers they came in are needed for others, and some have been unpacked in
part. So what waits together is limited, whatever clients send. What was unpacked is given back where it would be too
much; a batch beyond that is answered with an error after which producers send it again. Checks are finished one at a
time, so one batch at most is unpacked as a whole; and after a few the other requests have their turn, so that a request
with thousands of small batches that unpack to very much does not keep those of others waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from semel.errors import ErrorCode, KafkaError
from semel.log.batch_check import BatchCheck
from semel.log.worker import Worker

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024

TURN_BYTES: Final = 64 * 1024 * 1024
"""A request has its turn until its checks may have unpacked so much: tenths of a second at most."""

RECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The batches of one request under their topics' codecs, where these are others than they came with."""


class RecordChecks:
    def __init__(self, make_worker: Callable[[str], Worker]) -> None:
        self._make_worker = make_worker
        self._worker: Worker | None = None
        self._is_over = False
        self.waiting_bytes = 0

    def check_room(self, size_bytes: int) -> None:
        """Raise KafkaError if so much more would be too much. One request is always taken."""
        if self.waiting_bytes and self.waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"batches of {self.waiting_bytes} bytes wait for the check of their records; with {size_bytes} more it "
                f"would be more than {WAITING_BYTES_MAX}; nothing was appended, send it again",
            )

    def run(
        self, checks: Sequence[BatchCheck], size_bytes: int, finished: Callable[[BaseException | None], None]
    ) -> None:
        """Finish these checks elsewhere, and then call ``finished``, with what went wrong if that failed unexpectedly.

        ``size_bytes``: what their request holds. What they have unpacked comes on top of it.
        """
        if self._is_over:
            return  # The broker ends, and its clients with it.
        if self._worker is None:
            self._worker = self._make_worker("semel-checks")
        for check in checks:
            if self.waiting_bytes + size_bytes + check.unpacked_bytes > WAITING_BYTES_MAX:
                check.forget()
            size_bytes += check.unpacked_bytes
        self.waiting_bytes += size_bytes

        worker, left = self._worker, list(reversed(checks))
        recompressed_bytes = 0

        def work() -> None:
            nonlocal recompressed_bytes
            turn_bytes = 0
            while left and turn_bytes < TURN_BYTES:
                check = left.pop()
                turn_bytes += check.unpacked_bytes_max
                check.finish(RECOMPRESSED_BYTES_MAX - recompressed_bytes)
                recompressed_bytes += len(check.recompressed or b"")

        def told(result: BaseException | None) -> None:
            if left and result is None and not self._is_over:
                worker.run(work, told)
                return
            self.waiting_bytes -= size_bytes
            finished(result)

        worker.run(work, told)

    def kill(self) -> None:
        """Begin no further check, and tell of none."""
        self._is_over = True
        if self._worker is not None:
            self._worker.kill()
