"""Checks of batches that would occupy the event loop for too long: a worker of their own finishes them.

The batches that wait are copies, because the buffers in which they arrived are needed for other requests, and some are
already decompressed in part. So the bytes that wait are limited, whatever clients send. Above the limit decompressed
bytes are freed again, and a batch that does not fit is answered with an error after which producers send it again.
Checks are finished one at a time, so that at most one batch is decompressed as a whole. After a few checks of one
request the worker goes on with the other requests, so that a request with thousands of small batches, which decompress
to very much, does not delay them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from semel.errors import ErrorCode, KafkaError
from semel.log.batch_check import BatchCheck
from semel.log.worker import Worker

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024

TURN_BYTES: Final = 64 * 1024 * 1024
"""How many bytes the checks of one request may decompress before the worker goes on with another request: this takes
tenths of a second at most."""

RECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""How many bytes the batches of one request may have after they are compressed again with their topics' codecs."""


class RecordChecks:
    """The worker for checks of batches that take long, and the limit of the bytes that wait for it."""

    def __init__(self, make_worker: Callable[[str], Worker]) -> None:
        self._make_worker = make_worker
        self._worker: Worker | None = None
        self._is_over = False
        self.waiting_bytes = 0

    def check_room(self, size_bytes: int) -> None:
        """Raise KafkaError if so many more bytes may not wait. If no bytes wait, one request may, whatever its size."""
        if self.waiting_bytes and self.waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"batches of {self.waiting_bytes} bytes wait for the check of their records; with {size_bytes} more it "
                f"would be more than {WAITING_BYTES_MAX}; nothing was appended, send it again",
            )

    def run(
        self, checks: Sequence[BatchCheck], size_bytes: int, finished: Callable[[BaseException | None], None]
    ) -> None:
        """Finish these checks on the worker, and then call ``finished``, with the exception after an unexpected one.

        ``size_bytes`` is the size of the request's batches. Bytes that the checks have decompressed are counted too.
        """
        if self._is_over:
            return  # The broker ends, and closes its connections.
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

        def turn_finished(result: BaseException | None) -> None:
            if self._is_over:
                return  # The worker had finished before it was killed.
            if left and result is None:
                worker.run(work, turn_finished)
                return
            self.waiting_bytes -= size_bytes
            finished(result)

        worker.run(work, turn_finished)

    def kill(self) -> None:
        """Begin no further check, and call no ``finished``."""
        self._is_over = True
        if self._worker is not None:
            self._worker.kill()
