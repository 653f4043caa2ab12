"""The settings of a broker: Kafka's names and defaults, where values come from, and what is told of them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from semel.broker.config import config_reference
from semel.broker.config.broker_config import BROKER_SETTINGS, BrokerConfig, FlushPolicy
from semel.broker.config.config_entries import (
    ConfigSynonym,
    DescribedConfig,
    all_brokers_entries,
    broker_entries,
    topic_entries,
)
from semel.log.config import DEFAULTS, HOUR_MS, TOPIC_SETTINGS
from semel.settings import SettingError, SettingType, Update
from semel.wire.codes import ConfigSource
from tests.unit.broker.config.own_settings import AT_START_ONLY, OF_THE_AUTHORIZER, OTHER_DEFAULT, OUR_OWN

# Apache Kafka 4.3.0's answer to DescribeConfigs for a broker, of the settings that exist here: the default, and whether
# it may be altered while the broker runs.
KAFKA_SETTINGS: dict[str, tuple[str | None, bool]] = {
    "authorizer.class.name": ("", False),
    "auto.create.topics.enable": ("true", False),
    "broker.rack": (None, False),
    "compression.gzip.level": ("-1", True),
    "compression.lz4.level": ("9", True),
    "compression.type": ("producer", True),
    "compression.zstd.level": ("3", True),
    "connections.max.idle.ms": ("600000", False),
    "controller.quota.window.num": ("11", False),
    "controller.quota.window.size.seconds": ("1", False),
    "delete.topic.enable": ("true", False),
    "fetch.max.bytes": ("57671680", False),
    "group.consumer.assignors": ("uniform,range", False),
    "group.consumer.heartbeat.interval.ms": ("5000", False),
    "group.consumer.max.heartbeat.interval.ms": ("15000", False),
    "group.consumer.max.session.timeout.ms": ("60000", False),
    "group.consumer.max.size": ("2147483647", False),
    "group.consumer.migration.policy": ("bidirectional", False),
    "group.consumer.min.heartbeat.interval.ms": ("5000", False),
    "group.consumer.min.session.timeout.ms": ("45000", False),
    "group.consumer.session.timeout.ms": ("45000", False),
    "group.initial.rebalance.delay.ms": ("3000", False),
    "group.max.session.timeout.ms": ("1800000", False),
    "group.max.size": ("2147483647", False),
    "group.min.session.timeout.ms": ("6000", False),
    "inter.broker.listener.name": (None, False),
    "log.cleaner.backoff.ms": ("15000", True),
    "log.cleaner.dedupe.buffer.size": ("134217728", True),
    "log.cleaner.delete.retention.ms": ("86400000", True),
    "log.cleaner.enable": ("true", False),
    "log.cleaner.max.compaction.lag.ms": ("9223372036854775807", True),
    "log.cleaner.min.cleanable.ratio": ("0.5", True),
    "log.cleaner.min.compaction.lag.ms": ("0", True),
    "log.cleanup.policy": ("delete", True),
    "log.flush.interval.messages": ("9223372036854775807", True),
    "log.flush.interval.ms": (None, True),
    "log.flush.offset.checkpoint.interval.ms": ("60000", False),
    "log.flush.scheduler.interval.ms": ("9223372036854775807", False),
    "log.flush.start.offset.checkpoint.interval.ms": ("60000", False),
    "log.index.interval.bytes": ("4096", True),
    "log.index.size.max.bytes": ("10485760", True),
    "log.message.timestamp.after.max.ms": ("3600000", True),
    "log.message.timestamp.before.max.ms": ("9223372036854775807", True),
    "log.message.timestamp.type": ("CreateTime", True),
    "log.preallocate": ("false", True),
    "log.retention.bytes": ("-1", True),
    "log.retention.check.interval.ms": ("300000", False),
    "log.retention.hours": ("168", False),
    "log.retention.minutes": (None, False),
    "log.retention.ms": (None, True),
    "log.roll.hours": ("168", False),
    "log.roll.jitter.hours": ("0", False),
    "log.roll.jitter.ms": (None, True),
    "log.roll.ms": (None, True),
    "log.segment.bytes": ("1073741824", True),
    "log.segment.delete.delay.ms": ("60000", True),
    "max.incremental.fetch.session.cache.slots": ("1000", False),
    "message.max.bytes": ("1048588", True),
    "num.partitions": ("1", False),
    "offset.metadata.max.bytes": ("4096", False),
    "offsets.retention.check.interval.ms": ("600000", False),
    "offsets.retention.minutes": ("10080", False),
    "offsets.topic.num.partitions": ("50", False),
    "offsets.topic.replication.factor": ("3", False),
    "offsets.topic.segment.bytes": ("104857600", False),
    "producer.id.expiration.ms": ("86400000", True),
    "replica.fetch.max.bytes": ("1048576", False),
    "replica.fetch.wait.max.ms": ("500", False),
    # Without effect.
    "background.threads": ("10", True),
    "group.consumer.assignment.interval.ms": ("1000", True),
    "group.coordinator.threads": ("4", False),
    "log.cleaner.threads": ("1", True),
    "num.io.threads": ("8", True),
    "num.network.threads": ("3", True),
    "num.recovery.threads.per.data.dir": ("2", True),
    "num.replica.alter.log.dirs.threads": (None, False),
    "num.replica.fetchers": ("1", True),
    "queued.max.requests": ("500", False),
    "socket.receive.buffer.bytes": ("102400", False),
    "socket.send.buffer.bytes": ("102400", False),
    "sasl.kerberos.min.time.before.relogin": ("60000", True),
    # Internal to Kafka, so that it does not describe it.
    "producer.id.expiration.check.interval.ms": ("600000", False),
    # With the prefix of a listener before it.
    "plain.sasl.jaas.config": (None, False),
    "scram-sha-256.sasl.jaas.config": (None, False),
    "scram-sha-512.sasl.jaas.config": (None, False),
    "sasl.oauthbearer.clock.skew.seconds": ("30", False),
    "sasl.oauthbearer.expected.audience": (None, False),
    "sasl.oauthbearer.expected.issuer": (None, False),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": ("3600000", False),
    "sasl.oauthbearer.jwks.endpoint.url": (None, False),
    "sasl.oauthbearer.scope.claim.name": ("scope", False),
    "sasl.oauthbearer.sub.claim.name": ("sub", False),
    "connection.failed.authentication.delay.ms": ("100", False),
    "connections.max.reauth.ms": ("0", False),
    "quota.window.num": ("11", False),
    "quota.window.size.seconds": ("1", False),
    "socket.request.max.bytes": ("104857600", False),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ("10000", False),
    "ssl.principal.mapping.rules": ("DEFAULT", False),
    "transaction.max.timeout.ms": ("900000", False),
    "transaction.remove.expired.transaction.cleanup.interval.ms": ("3600000", False),
    "transaction.state.log.min.isr": ("2", False),
    "transaction.state.log.num.partitions": ("50", False),
    "transaction.state.log.replication.factor": ("3", False),
    "transaction.state.log.segment.bytes": ("104857600", False),
    "transactional.id.expiration.ms": ("604800000", False),
    "unclean.leader.election.enable": ("false", True),
}


def test_names_defaults_and_what_can_be_altered_are_those_of_apache_kafka() -> None:
    ours = {
        setting.name: (
            None if setting.default is None else setting.text(setting.default),
            setting.update is Update.CLUSTER_WIDE,
        )
        for setting in BROKER_SETTINGS.values()
        if setting.name not in OUR_OWN | OTHER_DEFAULT | OF_THE_AUTHORIZER
    }
    assert ours == KAFKA_SETTINGS | {name: (default, False) for name, default in AT_START_ONLY.items()}


def test_a_setting_or_default_that_is_not_kafkas_says_so() -> None:
    assert all("Semel's own" in BROKER_SETTINGS[name].doc for name in OUR_OWN)
    # What is the default of a topic's setting of the same name is said there.
    assert all("Kafka" in (TOPIC_SETTINGS.get(name) or BROKER_SETTINGS[name]).doc for name in OTHER_DEFAULT)


def test_every_attribute_is_called_like_its_setting() -> None:
    settings = [field.metadata["setting"] for field in fields(BrokerConfig) if "setting" in field.metadata]
    attributes = [field.name for field in fields(BrokerConfig) if "setting" in field.metadata]
    assert attributes == [setting.attribute for setting in settings]


def test_a_broker_that_is_told_nothing_has_the_defaults() -> None:
    config = BrokerConfig.load()
    assert config == BrokerConfig()
    assert (config.flush, config.node_id, config.num_partitions, config.log) == (FlushPolicy.COMMIT, 1, 1, DEFAULTS)


def test_the_command_line_wins_over_the_file() -> None:
    config = BrokerConfig.load("num.partitions=2\nflush=os\n", {"num.partitions": "3"})
    assert (config.num_partitions, config.flush) == (3, FlushPolicy.OS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num.partition=1", "Unknown broker config name: num.partition; did you mean num.partitions?"),
        ("listeners=:9092", "Invalid value :9092 for configuration listeners: the value must be NAME://HOST:PORT"),
        ("listeners=PLAINTEXT://:65536", "the value must be NAME://HOST:PORT"),
        ("listeners=", "the value must be NAME://HOST:PORT"),
        ("listener.security.protocol.map=A:TLS", "each protocol one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("port=9092", "--listen"),
        ("ssl.client.auth=yes", "Invalid value yes for configuration ssl.client.auth: the value must be one of none"),
        ("ssl.keystore.type=JKS", "the value must be one of PEM"),
        ("ssl.keystore.password=x", "ssl.key.password"),
        ("ssl.enabled.protocols=TLSv1.1", "the value must be a list of TLSv1.2, TLSv1.3"),
        ("ssl.principal.mapping.rules=RULE:x", "the value must be DEFAULT or RULE:pattern/replacement/[LU]"),
        ("listener.name.a.ssl.client.auth=yes", "for configuration listener.name.a.ssl.client.auth: the value must"),
        ("listener.name.a.num.partitions=1", "Unknown broker config name: listener.name.a.num.partitions"),
        ("num.io.threads=0", "Invalid value 0 for configuration num.io.threads: the value must be at least 1"),
        ("controller.quorum.voters=1@x:1", "one of the brokers is the controller"),
        ("num.partitions=0", "Invalid value 0 for configuration num.partitions: the value must be at least 1"),
        ("flush=never", "Invalid value never for configuration flush: the value must be one of commit, os"),
        ("log.dirs=a,b", "one folder"),
        ("broker.id=1\nnode.id=2", "broker.id (1) and node.id (2) are one setting; set only node.id"),
        ("log.cleaner.min.compaction.lag.ms=5\nlog.cleaner.max.compaction.lag.ms=4", "is larger than"),
        ("group.min.session.timeout.ms=2000000", "no member could join"),
        ("group.consumer.heartbeat.interval.ms=45000", "must be smaller"),
        ("group.consumer.session.timeout.ms=10000", "group.consumer.min.session.timeout.ms (45000)"),
        ("group.consumer.heartbeat.interval.ms=20000", "group.consumer.max.heartbeat.interval.ms (15000)"),
    ],
)
def test_a_wrong_setting_is_an_error_that_says_what_to_do(text: str, said: str) -> None:
    with pytest.raises(SettingError) as refused:
        BrokerConfig.load(text)
    assert said in str(refused.value)


def test_older_names_still_count() -> None:
    config = BrokerConfig.load("broker.id=7\nlog.dir=/data")
    assert (config.node_id, config.log_dirs) == (7, ("/data",))
    assert BrokerConfig.load("node.id=8", {"broker.id": "9"}).node_id == 9


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("log.retention.hours=2", 2 * HOUR_MS),
        ("log.retention.hours=2\nlog.retention.minutes=3", 180_000),
        ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
        ("log.retention.hours=-1", None),
        ("log.retention.minutes=-1\nlog.retention.hours=1", None),
        ("log.retention.hours=2147483647", 2147483647 * HOUR_MS),
    ],
)
def test_retention_is_decided_by_the_finest_unit_that_is_set(text: str, retention_ms: int | None) -> None:
    assert BrokerConfig.load(text).log.retention_ms == retention_ms


def test_every_synonym_of_a_topics_setting_is_a_brokers_setting_and_reaches_the_topics() -> None:
    for setting in TOPIC_SETTINGS.values():
        for synonym in setting.synonyms:
            one = BrokerConfig.load("", {synonym.name: _another_value(setting.name)})
            assert one.log != DEFAULTS, synonym.name


def test_what_was_altered_while_running_wins_and_this_broker_before_all() -> None:
    config = BrokerConfig.load("max.connections=5\nlog.retention.ms=6")
    altered = config.altered(
        dynamic_default={"max.connections": "50", "log.retention.ms": "60"}, dynamic={"log.retention.ms": "600"}
    )
    assert (altered.max_connections, altered.log.retention_ms) == (50, 600)
    assert altered.altered(dynamic_default={}, dynamic={}) == config


def test_a_topics_entry_says_which_setting_gave_the_value() -> None:
    config = BrokerConfig.load("log.retention.hours=1").altered(
        dynamic_default={"log.retention.ms": " 5 "}, dynamic={"log.retention.ms": "6"}
    )
    (entry,) = topic_entries({"retention.ms": "+7"}, config, {"retention.ms"})
    assert entry == DescribedConfig(
        name="retention.ms",
        value="7",
        source=ConfigSource.TOPIC,
        is_read_only=False,
        is_sensitive=False,
        synonyms=(
            ConfigSynonym("retention.ms", "7", ConfigSource.TOPIC),
            ConfigSynonym("log.retention.ms", "6", ConfigSource.BROKER),
            ConfigSynonym("log.retention.ms", "5", ConfigSource.ALL_BROKERS),
            ConfigSynonym("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
            ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT),
        ),
        type=SettingType.LONG,
        documentation=TOPIC_SETTINGS["retention.ms"].doc,
    )


def test_a_value_inherited_in_hours_is_told_in_the_topics_unit() -> None:
    (entry,) = topic_entries({}, BrokerConfig.load("log.retention.hours=2"), {"retention.ms"})
    assert (entry.value, entry.source, entry.is_default) == ("7200000", ConfigSource.STATIC_BROKER, False)


@pytest.mark.parametrize("text", ["", "log.retention.hours=2\nlog.roll.ms=5\nlog.cleanup.policy=compact"])
def test_the_entries_of_a_topic_tell_what_its_log_works_with(text: str) -> None:
    config = BrokerConfig.load(text)
    entries = topic_entries({}, config)
    told = {entry.name: entry.value for entry in entries if entry.value is not None}
    assert (
        TOPIC_SETTINGS.attributes(told).items()
        <= {field.name: getattr(config.log, field.name) for field in fields(config.log)}.items()
    )
    assert [entry.name for entry in entries] == sorted(name for name in TOPIC_SETTINGS if "internal" not in name)


def test_a_brokers_entry_says_whether_it_can_be_altered_and_where_it_was_set() -> None:
    config = BrokerConfig.load("num.partitions=4").altered(dynamic_default={"max.connections": "7"}, dynamic={})
    entries = {entry.name: entry for entry in broker_entries(config)}
    assert (
        entries["num.partitions"].value,
        entries["num.partitions"].source,
        entries["num.partitions"].is_read_only,
    ) == (
        "4",
        ConfigSource.STATIC_BROKER,
        True,
    )
    assert entries["max.connections"].synonyms == (
        ConfigSynonym("max.connections", "7", ConfigSource.ALL_BROKERS),
        ConfigSynonym("max.connections", "1000", ConfigSource.DEFAULT),
    )
    unset = entries["log.retention.ms"]
    assert (unset.value, unset.source, unset.synonyms) == (None, ConfigSource.DEFAULT, ())
    assert [entry.name for entry in all_brokers_entries(config)] == ["max.connections"]


def test_the_reference_in_the_documentation_is_what_the_declarations_say() -> None:
    page = Path(__file__).parents[4] / "docs" / "configuration.md"
    assert page.read_text() == config_reference.render(), "run python -m semel.broker.config.config_reference"


def _another_value(topic_setting: str) -> str:
    other = {
        "cleanup.policy": "compact",
        "compression.type": "gzip",
        "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "true",
        "unclean.leader.election.enable": "true",
        "segment.bytes": "2000000",
    }
    return other.get(topic_setting, "7")


def test_a_password_is_shown_nowhere() -> None:
    config = BrokerConfig.load(
        "ssl.key.password=hunter2\nlistener.name.inside.ssl.key.password=hunter3\nssl.keystore.key=hunter4"
    )
    told = {entry.name: (entry.value, entry.is_sensitive) for entry in broker_entries(config)}
    assert told["ssl.key.password"] == told["listener.name.inside.ssl.key.password"] == (None, True)
    shown = f"{config!r} {config.sources!r} {broker_entries(config)}"
    assert "hunter" not in shown
    assert config.for_listener("INSIDE").ssl_key_password == "hunter3"


def test_a_setting_with_the_prefix_of_a_listener_counts_there_alone() -> None:
    config = BrokerConfig.load("ssl.client.auth=requested\nlistener.name.inside.ssl.client.auth=required")
    auth = [config.for_listener(name).ssl_client_auth for name in ("INSIDE", "OUTSIDE")]
    assert (config.ssl_client_auth, auth) == ("requested", ["required", "requested"])
    (entry,) = broker_entries(config, {"listener.name.inside.ssl.client.auth"})
    assert (entry.value, entry.source) == ("required", ConfigSource.STATIC_BROKER)
