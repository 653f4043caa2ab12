"""A broker with a small shop on it, and two consoles: one that only looks, one that may change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.console.app import Rules
from semel.testing import Broker
from tests.console.visitor import Visitor, running_console
from tools.console_scene import shop


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with (
        Broker(num_partitions=2, group_initial_rebalance_delay_ms=0) as running,
        shop(bootstrap_servers=running.bootstrap_servers),
    ):
        yield running


@pytest.fixture(scope="package")
def console_port(broker: Broker) -> Iterator[int]:
    with running_console({"bootstrap_servers": broker.bootstrap_servers}) as port:
        yield port


@pytest.fixture(scope="package")
def changing_port(broker: Broker) -> Iterator[int]:
    with running_console({"bootstrap_servers": broker.bootstrap_servers}, Rules(allow_changes=True)) as port:
        yield port


@pytest.fixture
def visitor(console_port: int) -> Visitor:
    return Visitor(console_port)


@pytest.fixture
def changer(changing_port: int) -> Visitor:
    return Visitor(changing_port)
