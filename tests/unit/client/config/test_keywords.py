"""The keywords that type checkers know are the settings that are declared, each with the type of its declaration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import pytest

from semel.client.config.admin import ADMIN_SETTINGS
from semel.client.config.common import read_keywords
from semel.client.config.consumer import CONSUMER_SETTINGS
from semel.client.config.keywords import AdminSettings, ConsumerSettings, Flag, Names, Number, ProducerSettings
from semel.client.config.producer import PRODUCER_SETTINGS
from semel.settings import Setting, Settings, SettingType

TYPES: dict[SettingType, Any] = {
    SettingType.BOOLEAN: Flag,
    SettingType.INT: Number,
    SettingType.LONG: Number,
    SettingType.LIST: Names,
    SettingType.STRING: str,
    SettingType.PASSWORD: str,
}
KINDS = [(ProducerSettings, PRODUCER_SETTINGS), (ConsumerSettings, CONSUMER_SETTINGS), (AdminSettings, ADMIN_SETTINGS)]


def expected(setting: Setting) -> Any:
    if setting.name == "bootstrap.servers":
        return Names  # It cannot be left out.
    if setting.name == "acks":
        return Number | None  # Text in Kafka, because of ``all``.
    return TYPES[setting.type] | None


@pytest.mark.parametrize(("keywords", "settings"), KINDS)
def test_the_keywords_are_the_settings(keywords: Any, settings: Settings) -> None:
    declared = {setting.attribute: expected(setting) for setting in settings.values()}
    declared["sasl_oauthbearer_token_provider"] = Callable[[], str | Awaitable[str]] | None
    assert get_type_hints(keywords) == declared


@pytest.mark.parametrize(("keywords", "settings"), KINDS)
def test_what_a_type_checker_allows_is_read(keywords: Any, settings: Settings) -> None:
    """Lists as lists, as tuples and as text."""
    for given in ("one:9092,two:9092", ["one:9092", "two:9092"], ("one:9092", "two:9092")):
        assert len(read_keywords(settings, {"bootstrap_servers": given})["bootstrap_servers"]) == 2
