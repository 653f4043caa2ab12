"""How many partitions and connections a limit of open files leaves room for."""

from __future__ import annotations

import pytest

from semel.broker.network.descriptors import RESERVE, Descriptors
from semel.errors import StorageError


def test_without_a_limit_nothing_is_bounded() -> None:
    unlimited = Descriptors(None)
    unlimited.check(1_000_000)
    assert (unlimited.partitions_max(), unlimited.connections_max(10)) == (None, None)


@pytest.mark.parametrize("limit", [0, 100, 256, 1024, 20_000, 1_048_576])
def test_partitions_and_connections_share_what_the_reserve_leaves(limit: int) -> None:
    descriptors = Descriptors(limit)
    partitions = descriptors.partitions_max()
    assert partitions is not None
    connections = descriptors.connections_max(partitions)
    assert connections is not None
    assert partitions + connections + RESERVE <= max(limit, RESERVE + 16)


def test_too_many_partitions_for_a_start_say_what_to_do() -> None:
    with pytest.raises(StorageError, match=r"2000 partitions need 2080 open files.*may have 1024.*ulimit -n 2080.*"):
        Descriptors(1024).check(2000)
