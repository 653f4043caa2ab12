"""The descriptions of settings, from which ``docs/configuration.md`` and DescribeConfigs are made, are true."""

from __future__ import annotations

import ast
import re

import pytest

from semel.broker.config.broker_config import BROKER_SETTINGS
from semel.broker.config.client_metrics_config import CLIENT_METRICS_SETTINGS
from semel.broker.config.group_overrides import GROUP_SETTINGS
from semel.client.config.admin import ADMIN_SETTINGS
from semel.client.config.consumer import CONSUMER_SETTINGS
from semel.client.config.producer import PRODUCER_SETTINGS
from semel.log.config import TOPIC_SETTINGS
from semel.settings import Settings
from tests.documentation.blocks import ROOT

SETTINGS = (
    TOPIC_SETTINGS,
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    PRODUCER_SETTINGS,
    CONSUMER_SETTINGS,
    ADMIN_SETTINGS,
)

# They were true before there were clusters, security and quotas.
OUTDATED = re.compile(r"(has|have) one replica|nothing is copied|no (replication|security|quotas)|its own controller")
WITHOUT_EFFECT = re.compile(r"\b(no|without) effect\b", re.IGNORECASE)

every_kind = pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.kind)


@pytest.fixture(scope="module")
def attributes_read() -> set[str]:
    """The names of all attributes that the code of Semel reads."""
    return {
        node.attr
        for path in (ROOT / "src" / "semel").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@every_kind
def test_no_description_speaks_of_a_single_broker_without_security(settings: Settings) -> None:
    texts = [f"{setting.name}: {setting.doc}" for setting in settings.values()]
    texts += [f"{name}: {reason}" for name, reason in settings.absent.items()]
    assert [text for text in texts if OUTDATED.search(text)] == []


@every_kind
def test_a_setting_that_is_described_as_without_effect_is_read_nowhere(
    settings: Settings, attributes_read: set[str]
) -> None:
    without_effect = {setting.attribute for setting in settings.values() if WITHOUT_EFFECT.search(setting.doc)}
    assert without_effect & attributes_read == set()
