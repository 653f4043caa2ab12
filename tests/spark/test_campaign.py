"""The crash campaign in short: five kills of a real driver process, its tasks and its broker (scenario 69)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.brokers import semel
from tools.campaigns.spark import KILLS, RUNS
from tools.patience import TEST_S_MAX
from tools.server import running
from tools.spark_run import ANSWER, BROKER, TASK, ZOMBIE, Kill, chosen_kills, kill_pipeline
from tools.spark_run import KILLS as KINDS

SHORT = [
    Kill(TASK, "producing"),
    Kill(BROKER, "produced"),
    Kill(ZOMBIE, "producing"),
    Kill(ANSWER, "offsets sent"),
    Kill(BROKER, "written"),
]
"""Only one of them ends the driver, since starting Spark again takes longer than all the rest. A driver that ends
behind its commit is in test_pipeline and test_fused."""


@pytest.mark.needs("java")
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(3 * TEST_S_MAX)  # A driver is started for each.
def test_five_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    with running(semel(tmp_path / "broker")) as server:
        verdict = kill_pipeline(server, tmp_path, SHORT, is_stateful=True)
    assert verdict.problems == ()
    assert sum(verdict.hits.values()) == len(SHORT)


def test_the_whole_campaign_kills_everything_everywhere() -> None:
    planned = {kill for seed in range(RUNS) for kill in chosen_kills(seed, KILLS, is_stateful=seed % 2 == 1)}
    assert planned == set(KINDS)
