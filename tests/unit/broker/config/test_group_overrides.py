"""Settings of one group: over the broker's, and within its bounds."""

from __future__ import annotations

import pytest

from semel.broker.config.broker_config import BROKER_SETTINGS, BrokerConfig
from semel.broker.config.group_overrides import GROUP_SETTINGS, check_group_overrides, consumer_settings
from semel.settings import SettingError

CONFIG = BrokerConfig.load()
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_without_settings_of_its_own_has_the_brokers() -> None:
    settings = consumer_settings(CONFIG, {})
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (45_000, 5000)
    assert settings.assignors == ("uniform", "range")


def test_a_setting_of_a_group_counts_before_the_brokers() -> None:
    settings = consumer_settings(CONFIG, {SESSION: "50000", HEARTBEAT: "6000"})
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (50_000, 6000)


def test_what_is_outside_the_bounds_after_a_restart_with_others_becomes_the_nearest_bound() -> None:
    narrow = BrokerConfig.load("group.consumer.max.session.timeout.ms=46000")
    assert consumer_settings(narrow, {SESSION: "50000", "of.a.newer.version": "1"}).session_timeout_ms == 46_000


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            {SESSION: "44999"},
            f"{SESSION} (44999) must be greater than or equal to group.consumer.min.session.timeout.ms (45000)",
        ),
        (
            {SESSION: "60001"},
            f"{SESSION} (60001) must be less than or equal to group.consumer.max.session.timeout.ms (60000)",
        ),
        (
            {HEARTBEAT: "4999"},
            f"{HEARTBEAT} (4999) must be greater than or equal to group.consumer.min.heartbeat.interval.ms (5000)",
        ),
        ({"consumer.assignment.interval.ms": "1000"}, "consumer.assignment.interval.ms (1000) must be 0"),
        ({"streams.session.timeout.ms": "1"}, "Semel has no streams groups"),
        ({"share.session.timeout.ms": "1"}, "Semel has no share groups"),
    ],
)
def test_what_no_group_may_have_is_refused(overrides: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError) as refused:
        check_group_overrides(CONFIG, overrides)
    assert said in str(refused.value)


def test_an_assignment_interval_of_nothing_is_what_a_group_has() -> None:
    check_group_overrides(CONFIG, {"consumer.assignment.interval.ms": "0"})


def test_a_heartbeat_interval_as_long_as_the_session_is_refused() -> None:
    wide = BrokerConfig.load("group.consumer.min.session.timeout.ms=6000")
    check_group_overrides(wide, {SESSION: "6000", HEARTBEAT: "5999"})
    with pytest.raises(SettingError, match=r"consumer.heartbeat.interval.ms \(6000\) must be less than"):
        check_group_overrides(wide, {SESSION: "6000", HEARTBEAT: "6000"})


def test_every_setting_of_a_group_inherits_from_one_of_the_broker_with_the_same_default() -> None:
    for setting in GROUP_SETTINGS.values():
        (synonym,) = setting.synonyms
        assert BROKER_SETTINGS[synonym.name].default == setting.default
