"""The settings of a topic: Kafka's names, defaults and ranges, and what they become."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.log.config import DEFAULTS, TOPIC_SETTINGS, CleanupPolicy, LogConfig
from semel.settings import SettingError
from semel.types import INT64_MAX
from semel.wire.compression import Codec
from semel.wire.records.header import TimestampType

# What Apache Kafka 4.3.0 answers to DescribeConfigs for a topic on which nothing is set, less tiered storage.
KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "2",  # Kafka has 1.
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_names_and_defaults_are_those_of_apache_kafka() -> None:
    visible = [setting for setting in TOPIC_SETTINGS.values() if not setting.internal]
    assert {
        setting.name: None if setting.default is None else setting.text(setting.default) for setting in visible
    } == KAFKA_DEFAULTS


def test_kafkas_defaults_written_out_are_the_defaults() -> None:
    assert LogConfig.from_settings(KAFKA_DEFAULTS) == DEFAULTS == LogConfig()


def test_every_attribute_is_called_like_its_setting() -> None:
    assert [field.name for field in fields(LogConfig)] == [setting.attribute for setting in TOPIC_SETTINGS.values()]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "-1", None),
        ("retention.ms", "0", 0),
        ("retention.bytes", "-5", None),
        ("retention.bytes", "5", 5),
        ("cleanup.policy", "compact , delete", frozenset({CleanupPolicy.COMPACT, CleanupPolicy.DELETE})),
        ("cleanup.policy", "", frozenset()),
        ("cleanup.policy", "delete,delete", frozenset({CleanupPolicy.DELETE})),
        ("compression.type", "producer", None),
        ("compression.type", "uncompressed", Codec.NONE),
        ("compression.type", "zstd", Codec.ZSTD),
        ("compression.gzip.level", "-1", -1),
        ("message.timestamp.type", "LogAppendTime", TimestampType.LOG_APPEND_TIME),
        ("max.compaction.lag.ms", str(INT64_MAX), INT64_MAX),
        ("preallocate", " TRUE ", True),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
        ("leader.replication.throttled.replicas", "*", ("*",)),
    ],
)
def test_text_becomes_the_value_that_the_log_works_with(name: str, text: str, value: Any) -> None:
    assert getattr(LogConfig.from_settings({name: text}), TOPIC_SETTINGS[name].attribute) == value


# What Apache Kafka 4.3.0 answered INVALID_CONFIG to.
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("foo", "1"),
        ("log.retention.ms", "1"),
        ("retention.ms", "abc"),
        ("retention.ms", ""),
        ("retention.ms", "-2"),
        ("segment.bytes", "5"),
        ("segment.ms", "0"),
        ("cleanup.policy", "Delete"),
        ("cleanup.policy", "delete,"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.zstd.level", "23"),
        ("compression.lz4.level", "0"),
        ("compression.type", "none"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("preallocate", "yes"),
        ("message.timestamp.type", "createtime"),
        ("leader.replication.throttled.replicas", "0:1,*"),
        ("leader.replication.throttled.replicas", "x"),
        ("max.message.bytes", "99999999999"),
    ],
)
def test_what_kafka_refuses_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingError) as refused:
        LogConfig.from_settings({name: text})
    assert refused.value.setting == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("remote.storage.enable", "Semel has no tiered storage"),
        ("local.retention.ms", "Semel has no tiered storage"),
        ("flush", "flush is a setting of the broker"),
        ("log.retention.hours", "the topic's name for it is retention.ms"),
        ("retention.hours", "did you mean retention.ms?"),
        ("max.mesage.bytes", "did you mean max.message.bytes?"),
    ],
)
def test_a_name_that_is_not_a_topics_is_answered_with_the_reason_or_the_right_one(name: str, said: str) -> None:
    with pytest.raises(SettingError, match="Unknown topic config name") as refused:
        LogConfig.from_settings({name: "1"})
    assert said in str(refused.value)


@given(st.sampled_from(sorted(KAFKA_DEFAULTS)), st.data())
def test_a_name_that_lacks_one_letter_is_answered_with_the_name(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    mistyped = name[:at] + name[at + 1 :]
    with pytest.raises(SettingError) as refused:
        TOPIC_SETTINGS.lookup(mistyped)
    assert str(refused.value).endswith(f"did you mean {name}?")


def test_what_is_not_set_comes_from_the_brokers_defaults() -> None:
    broker = LogConfig(retention_ms=5, segment_bytes=100)
    config = LogConfig.from_settings({"segment.bytes": "2000000"}, broker)
    assert (config.retention_ms, config.segment_bytes) == (5, 2_000_000)


def test_compaction_lags_that_leave_no_moment_for_compaction_cannot_be_set() -> None:
    broker = LogConfig(max_compaction_lag_ms=4)
    LogConfig.from_settings({"min.compaction.lag.ms": "4"}, broker).check()
    conflicting = LogConfig.from_settings({"min.compaction.lag.ms": "5"}, broker)
    with pytest.raises(SettingError, match=r"min.compaction.lag.ms \(5\) is larger than max.compaction.lag.ms \(4\)"):
        conflicting.check()


@pytest.mark.parametrize(
    ("policy", "compact", "delete"),
    [("delete", False, True), ("compact", True, False), ("compact,delete", True, True), ("", False, False)],
)
def test_cleanup_policies_are_told_apart(policy: str, compact: bool, delete: bool) -> None:
    config = LogConfig.from_settings({"cleanup.policy": policy})
    assert (config.compact, config.delete) == (compact, delete)


def test_small_segments_can_be_had_for_tests_and_only_by_asking() -> None:
    assert LogConfig.from_settings({"internal.segment.bytes": "1000"}).segment_bytes == 1000
