"""``kill -9`` under load: everything acknowledged is there once, in order. ``make campaign-kill`` runs it ten times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.brokers import apache_kafka, semel
from tools.kill_run import KillRun, kill_under_load
from tools.run_result import to_json
from tools.server import running


def assert_exactly_once(verdict: KillRun) -> None:
    assert verdict.passed, to_json(verdict)
    assert verdict.acknowledged == verdict.sent


@pytest.mark.parametrize(("flush", "kills"), [("commit", 3), ("os", 2)])
def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path: Path, flush: str, kills: int) -> None:
    """With ``flush=commit`` the journal would make good what recovery lost; with ``flush=os`` nothing hides it."""
    with running(semel(tmp_path, settings={"flush": flush})) as server:
        assert_exactly_once(kill_under_load(server, seed=1_000, kills=kills))


@pytest.mark.kafka
@pytest.mark.needs("kafka")
def test_the_same_run_on_apache_kafka_passes_too(tmp_path: Path) -> None:
    """Kafka does not sync, but a killed process leaves its writes with the system: the checker must agree."""
    with running(apache_kafka(tmp_path)) as server:
        assert_exactly_once(kill_under_load(server, seed=1_000, kills=1))
