from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2) as running:
        yield running
