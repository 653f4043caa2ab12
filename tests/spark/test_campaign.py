"""The crash campaign in short: five kills of a real driver process, its tasks and its broker (scenario 69)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tools.brokers import semel
from tools.campaigns.spark import ON_SEMEL, RUNS, kills_of
from tools.patience import TEST_S_MAX
from tools.server import running
from tools.spark_run import ANSWER, BROKER, OFFSETS, OUTAGE, RIVAL, TASK, ZOMBIE, Kill, kill_pipeline
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


@pytest.mark.parametrize(
    ("seeds", "times"),
    [
        pytest.param(range(ON_SEMEL), 3, id="Semel"),
        pytest.param(range(ON_SEMEL, RUNS), 1, id="Apache Kafka"),
    ],
)
def test_the_whole_campaign_kills_everything_everywhere_on_both_brokers(seeds: range, times: int) -> None:
    planned = Counter(kill for seed in seeds for kill in kills_of(seed))
    assert set(planned) == set(KINDS)
    assert min(planned.values()) >= times


def test_shared_groups_expired_offsets_and_long_outages_are_among_them_on_both_brokers() -> None:
    for seeds in (range(ON_SEMEL), range(ON_SEMEL, RUNS)):
        victims = Counter(kill.victim for seed in seeds for kill in kills_of(seed))
        assert min(victims[victim] for victim in (RIVAL, OFFSETS, OUTAGE)) >= 2
