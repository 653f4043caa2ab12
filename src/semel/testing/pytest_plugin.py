"""The fixture ``semel_broker``: a fresh broker for each test that asks for one.

    def test_orders(semel_broker):
        producer = Producer({"bootstrap.servers": semel_broker.bootstrap_servers})

pytest finds it by itself where semel is installed. Settings for one test or module come from a mark:
``@pytest.mark.semel_broker(num_partitions=4)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from semel.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "semel_broker(**settings): settings of the broker that semel_broker starts")


@pytest.fixture
def semel_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker with its data in memory; see ``semel.testing.Broker``."""
    from semel.testing.broker import Broker  # Not before a test asks for it: pytest loads plugins at every start.

    settings: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("semel_broker"))):
        settings.update(mark.kwargs)
    with Broker(**settings) as broker:
        yield broker
