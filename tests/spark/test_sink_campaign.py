"""The campaign over sinks in short: ten kills while batches are written to a topic, a database, files and two lakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.brokers import semel
from tools.patience import TEST_S_MAX
from tools.server import running

# Most of them do not end the driver: to start it takes longer than all the rest of a kill.
SHORT = [
    ("worker", "files copied"),
    ("worker", "postgres copying"),
    ("worker", "postgres copied"),
    ("worker", "producing"),
    ("postgres", "postgres copied"),
    ("postgres", "postgres merged"),
    ("postgres", "offsets sent"),
    ("broker", "postgres committed"),
    ("driver", "postgres merged"),
    ("zombie", "postgres committed"),
]


@pytest.mark.needs("postgres")
@pytest.mark.timeout(3 * TEST_S_MAX)
def test_ten_kills_leave_every_number_once_in_the_topic_and_in_every_sink(tmp_path: Path) -> None:
    from tools.postgres import postgres_server
    from tools.sink_run import Kill, kill_sinks

    kills = [Kill(victim, point) for victim, point in SHORT]
    with running(semel(tmp_path / "broker")) as server, postgres_server() as postgres:
        outcome = kill_sinks(server, postgres, tmp_path, kills)
    assert outcome.problems == ()


@pytest.mark.needs("postgres")
def test_the_whole_campaign_kills_everything_everywhere_on_both_brokers() -> None:
    from tools.campaigns.sinks import COUNT, ON_SEMEL, kills_of
    from tools.sink_run import KILLS

    for seeds in (range(ON_SEMEL), range(ON_SEMEL, COUNT)):
        assert {kill for seed in seeds for kill in kills_of(seed)} == set(KILLS)
