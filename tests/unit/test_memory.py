"""The collector does not walk again through what survived a full collection that took too long."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from semel.broker.requests.large_requests import _no_collection
from semel.memory import FrozenSurvivors

SECONDS_MAX = 0.02


class Collections:
    """Full collections that take as long as a test says. The first callback sees the time before, the last after it."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._takes_s = 0.0
        self.survivors = FrozenSurvivors(SECONDS_MAX, lambda: self._now_s)

    def run(self, *, takes_s: float, generation: int = 2) -> int:
        """How many objects were frozen by it."""
        before = gc.get_freeze_count()
        self._takes_s = takes_s
        gc.collect(generation)
        return gc.get_freeze_count() - before

    def passes(self, phase: str, info: dict[str, int]) -> None:
        self._now_s += self._takes_s if phase == "start" else 0.0


@pytest.fixture
def collections() -> Iterator[Collections]:
    collections = Collections()
    gc.collect()  # Python 3.12 itself sets immortal objects aside, once, and counts them as frozen.
    callbacks = [collections.survivors, collections.passes]
    before = gc.callbacks[:]
    gc.callbacks[:] = callbacks
    yield collections
    gc.callbacks[:] = before
    gc.unfreeze()


def test_what_survives_a_long_collection_is_frozen(collections: Collections) -> None:
    alive = [[number] for number in range(1000)]

    assert collections.run(takes_s=2 * SECONDS_MAX) > len(alive)
    assert collections.run(takes_s=2 * SECONDS_MAX) < len(alive), "only what came since"


def test_short_collections_and_partial_ones_freeze_nothing(collections: Collections) -> None:
    assert collections.run(takes_s=SECONDS_MAX / 2) == 0
    assert collections.run(takes_s=2 * SECONDS_MAX, generation=1) == 0


@pytest.mark.parametrize(("count", "is_frozen"), [(100_000, True), (100, False)])
def test_the_objects_of_a_large_request_are_not_walked_through_when_it_was_served(count: int, is_frozen: bool) -> None:
    async def serve() -> int:
        gc.collect()
        before = gc.get_freeze_count()
        async with _no_collection():
            answer = [[number] for number in range(count)]
        frozen = gc.get_freeze_count() - before
        assert gc.isenabled()
        return frozen if answer else 0

    try:
        assert (asyncio.run(serve()) > count) is is_frozen
    finally:
        gc.unfreeze()
