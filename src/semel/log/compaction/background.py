"""Syncs of a compaction pass. They block, so a worker does them if there is one, while the pass yields empty slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from semel.log.worker import Worker

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
