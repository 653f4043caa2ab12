"""Dynamic settings that a broker finds in the metadata: applied, or ignored and logged if they contradict others."""

from __future__ import annotations

import pytest

from semel.broker.config.broker_config import BrokerConfig

LEAST, MOST = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"


def test_the_settings_for_all_brokers_and_for_this_one_are_applied() -> None:
    config = BrokerConfig.load(overrides={"node.id": "7", "max.connections": "3"})
    config = config.with_dynamic_configs({None: {LEAST: "5", MOST: "6"}, 7: {LEAST: "4"}, 8: {LEAST: "3"}})
    assert (config.log.min_compaction_lag_ms, config.log.max_compaction_lag_ms, config.max_connections) == (4, 6, 3)


@pytest.mark.parametrize(
    ("at_start", "of_all", "own", "left"),
    [
        ({}, {LEAST: "1000"}, {MOST: "10"}, 1000),
        ({MOST: "10"}, {}, {LEAST: "1000"}, 0),
        ({MOST: "10"}, {LEAST: "1000"}, {LEAST: "2000"}, 0),
        ({}, {}, {"no.such.setting": "1"}, 0),
    ],
)
def test_settings_that_contradict_others_are_ignored_and_logged(
    at_start: dict[str, str],
    of_all: dict[str, str],
    own: dict[str, str],
    left: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = BrokerConfig.load(overrides={"node.id": "7", **at_start})
    config = config.with_dynamic_configs({None: of_all, 7: own})
    assert config.log.min_compaction_lag_ms == left
    assert "the settings altered for this broker cannot be applied" in caplog.text
