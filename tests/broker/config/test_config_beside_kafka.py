"""The settings beside those of a running Apache Kafka: same names, defaults, and what may be altered while running."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ConfigSource

from semel.broker.config.broker_config import BROKER_SETTINGS
from semel.log.config import TOPIC_SETTINGS
from semel.settings import Settings, Update
from tests.unit.broker.config.own_settings import OUR_OWN
from tools.brokers import apache_kafka
from tools.load import create_topic
from tools.patience import PATIENCE_S
from tools.server import running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

OTHER_DEFAULT = {"max.connections", "max.connections.per.ip", "queued.max.request.bytes"}
INTERNAL_TO_KAFKA = {"internal.segment.bytes", "producer.id.expiration.check.interval.ms"}


def test_settings_are_those_of_apache_kafka(tmp_path: Path) -> None:
    with running(apache_kafka(tmp_path, heap="512m")) as kafka:
        create_topic(kafka.bootstrap_servers, "bare", partitions=1, config={})
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        topic = _described(admin, ConfigResource(ConfigResource.Type.TOPIC, "bare"))
        broker = _described(admin, ConfigResource(ConfigResource.Type.BROKER, "1"))
    _compare(TOPIC_SETTINGS, topic)
    _compare(BROKER_SETTINGS, broker)
    for name in BROKER_SETTINGS.keys() & broker.keys():
        assert (BROKER_SETTINGS[name].update is Update.READ_ONLY) == broker[name].is_read_only, name


def _compare(ours: Settings, theirs: dict[str, ConfigEntry]) -> None:
    assert ours.keys() - theirs.keys() <= OUR_OWN | INTERNAL_TO_KAFKA
    for name in ours.keys() & theirs.keys() - OTHER_DEFAULT:
        entry, default = theirs[name], ours[name].default
        if entry.source == ConfigSource.DEFAULT_CONFIG.value:
            assert (None if default is None else ours[name].text(default)) == entry.value, name


def _described(admin: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    (described,) = admin.describe_configs([resource]).values()
    return dict(described.result(timeout=PATIENCE_S))
