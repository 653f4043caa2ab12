"""The settings beside those of a running Apache Kafka: same names, defaults, and what may be altered while running."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ConfigSource

from semel.broker.config.broker_config import BROKER_SETTINGS
from semel.log.config import TOPIC_SETTINGS
from semel.settings import Settings, Update
from tests.unit.broker.config.own_settings import (
    AT_START_ONLY,
    OF_A_LISTENER,
    OF_THE_AUTHORIZER,
    OF_ZOOKEEPER,
    OTHER_DEFAULT,
    OUR_OWN,
)
from tools.brokers import apache_kafka
from tools.load import create_topic
from tools.patience import PATIENCE_S
from tools.server import running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

# As those of AT_START_ONLY, and with another default.
ALSO_AT_START_ONLY = {
    "listeners",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.keystore.type",
    "ssl.truststore.type",
}

NOT_DESCRIBED = (
    {"internal.segment.bytes", "producer.id.expiration.check.interval.ms"} | OF_THE_AUTHORIZER | OF_A_LISTENER
)


def test_settings_are_those_of_apache_kafka(tmp_path: Path) -> None:
    with running(apache_kafka(tmp_path, heap="512m")) as kafka:
        create_topic(kafka.bootstrap_servers, "bare", partitions=1, config={})
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        topic = _described(admin, ConfigResource(ConfigResource.Type.TOPIC, "bare"))
        broker = _described(admin, ConfigResource(ConfigResource.Type.BROKER, "1"))
    _compare(TOPIC_SETTINGS, topic)
    _compare(BROKER_SETTINGS, broker)
    shared = BROKER_SETTINGS.keys() & broker.keys()
    differ = {
        name for name in shared if (BROKER_SETTINGS[name].update is Update.READ_ONLY) != broker[name].is_read_only
    }
    assert sorted(differ - AT_START_ONLY.keys() - ALSO_AT_START_ONLY) == []


def _compare(ours: Settings, theirs: dict[str, ConfigEntry]) -> None:
    assert ours.keys() - theirs.keys() <= OUR_OWN | OF_ZOOKEEPER | NOT_DESCRIBED
    for name in ours.keys() & theirs.keys() - OTHER_DEFAULT:
        entry, default = theirs[name], ours[name].default
        if entry.source == ConfigSource.DEFAULT_CONFIG.value:
            # An empty list and none are the same.
            assert (None if default is None else ours[name].text(default) or None) == (entry.value or None), name


def _described(admin: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    (described,) = admin.describe_configs([resource]).values()
    return dict(described.result(timeout=PATIENCE_S))
