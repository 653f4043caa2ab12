"""Settings without effect: accepted at the start and while the broker runs, and told in the log."""

from __future__ import annotations

import logging

import pytest

from semel.broker.config.broker_config import BROKER_SETTINGS, BrokerConfig
from semel.broker.config.config_entries import broker_entries
from semel.broker.config.ignored_settings import IGNORED_SETTINGS, note_ignored


def test_the_settings_of_kafkas_own_server_properties_are_accepted() -> None:
    text = (
        "num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400"
    )
    config = BrokerConfig.load(f"{text}\nnum.recovery.threads.per.data.dir=2\nlog.retention.hours=168")
    (entry,) = broker_entries(config, ["num.io.threads"])
    assert (entry.value, entry.documentation) == (
        "8",
        "No effect: Semel serves all connections on one event loop and has no such threads.",
    )


def test_none_of_them_is_declared_twice() -> None:
    assert len({setting.name for setting in IGNORED_SETTINGS}) == len(IGNORED_SETTINGS)
    assert all(BROKER_SETTINGS[setting.name] is setting for setting in IGNORED_SETTINGS)


def test_each_is_noted_when_it_is_set_and_not_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="semel.broker"):
        note_ignored({"num.io.threads": "9", "background.threads": "2", "num.partitions": "4"}, {"num.io.threads": "9"})
    why = "Semel serves all connections on one event loop and has no such threads"
    assert caplog.messages == [f"background.threads=2 is accepted. No effect: {why}."]
