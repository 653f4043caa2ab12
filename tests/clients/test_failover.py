"""Replicated brokers as processes, with a real ZooKeeper: one after the other is killed, or paused, during a copy."""

from __future__ import annotations

import json

import pytest

from tools.campaigns import failover

# kill -9 and our client, SIGSTOP and our client, kill -9 and confluent-kafka.
SEEDS = (0, 1, 2)


@pytest.mark.kafka
@pytest.mark.needs("java")
@pytest.mark.xdist_group("cluster-up")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_equals_its_source_whichever_broker_dies_or_stands_still(seed: int) -> None:
    """Scenarios 31 to 36, 62 and 65. ``make campaign-failover`` has thirty of each."""
    verdict = failover.run(seed, records=4_000, kills=4)
    assert verdict["passed"], json.dumps(verdict, default=str)
    assert len(set(verdict["roles"])) == 4, "each role was struck"
