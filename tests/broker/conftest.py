"""One broker for all tests of a file, in memory, and a client for each test; tests keep apart by names of topics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from semel.testing import Broker
from tests.broker.raw_client import RawClient

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.port) as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A name for a topic that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def topic(client: RawClient, name: str) -> str:
    """A topic of one partition."""
    return client.create_topic(name)
