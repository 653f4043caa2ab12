"""The pytest fixtures ``semel_broker`` and ``semel_cluster``: a new broker or cluster for each test that uses them.

    def test_orders(semel_broker):
        producer = Producer({"bootstrap.servers": semel_broker.bootstrap_servers})

pytest finds them by itself where semel is installed. Settings for one test or module come from a mark:
``@pytest.mark.semel_broker(num_partitions=4)``, ``@pytest.mark.semel_cluster(brokers=3, num_partitions=6)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from semel.testing.broker import Broker
    from semel.testing.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "semel_broker(**settings): settings of the broker that semel_broker starts")
    config.addinivalue_line("markers", "semel_cluster(brokers=3, **settings): the cluster that semel_cluster starts")


@pytest.fixture
def semel_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker with its data in memory; see ``semel.testing.Broker``."""
    # Imported only when a test uses the fixture: pytest loads this plugin at every start.
    from semel.testing.broker import Broker

    with Broker(**_settings(request, "semel_broker")) as broker:
        yield broker


@pytest.fixture
def semel_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Running brokers that are one cluster, with their data in memory; see ``semel.testing.Cluster``."""
    from semel.testing.cluster import Cluster

    with Cluster(**_settings(request, "semel_cluster")) as cluster:
        yield cluster


def _settings(request: pytest.FixtureRequest, mark_name: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(mark_name))):
        settings.update(mark.kwargs)
    return settings
