"""Modules whose simulations run side by side in a pool of processes, and what their tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.side_by_side import SideBySide, side_by_side_of

_POOLED = "side_by_side"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep such a module in one of the processes that pytest itself is spread over.

    The pool uses every processor already. A second process would begin all of the module's simulations a second time.
    """
    for item in items:
        if isinstance(item, pytest.Function) and _POOLED in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="module")
def side_by_side(request: pytest.FixtureRequest) -> Iterator[SideBySide[Any]]:
    """All the jobs that the module's selected tests have as their parameter, under way."""
    yield from side_by_side_of(request)
