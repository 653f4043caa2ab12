from __future__ import annotations

import pytest

from semel.coordinator.transaction.settings import TransactionSettings
from tests.unit.coordinator.transaction.bench import Bench


@pytest.fixture
def bench() -> Bench:
    """A cluster with transactions V2."""
    return Bench()


@pytest.fixture
def old_bench() -> Bench:
    """A cluster that has not agreed on transactions V2."""
    return Bench(TransactionSettings(transaction_version=1))
