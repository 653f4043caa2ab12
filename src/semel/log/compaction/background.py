"""Work of a compaction pass that would block the caller for too long: syncs, and batches that are very large once they
are decompressed. A worker does it if there is one, while the pass yields empty slices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeAlias, TypeVar

from semel.errors import DecodeError
from semel.log.worker import Worker
from semel.wire.records import Record, iterate_records

T = TypeVar("T")

DECOMPRESSED_AT_ONCE_MAX: Final = 2 * 2**20
"""The largest size of the records of a batch that the caller decompresses itself."""

Background: TypeAlias = Callable[[Callable[[], None]], Iterator[None]]


def at_once(work: Callable[[], None]) -> Iterator[None]:
    """Do the work in the calling thread. Used without a worker: each sync blocks the caller."""
    work()
    return iter(())


def on(worker: Worker) -> Background:
    def background(work: Callable[[], None]) -> Iterator[None]:
        outcomes: list[BaseException | None] = []
        worker.run(work, outcomes.append)
        while not outcomes:
            yield
        if (failure := outcomes[0]) is not None:
            raise failure

    return background


def result_of(background: Background, work: Callable[[], T]) -> Generator[None, None, T]:
    """The result of work that is done in the background. Raises what it raised."""
    results: list[T] = []
    yield from background(lambda: results.append(work()))
    return results[0]


def records_of(background: Background, batch: memoryview) -> Generator[None, None, Iterator[Record]]:
    """The records of a batch, which are decompressed in the background if they are large. Raises ``DecodeError``."""
    try:
        return iterate_records(batch, size_max=DECOMPRESSED_AT_ONCE_MAX)
    except DecodeError:  # It is too large, or damaged.
        return (yield from result_of(background, lambda: iterate_records(batch)))
