"""Settings: Kafka's names and defaults, and contradictions that name both sides."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from semel.client.config.consumer import ConsumerConfig, IsolationLevel, OffsetReset
from semel.client.config.producer import ProducerConfig
from semel.settings import SettingError
from semel.types import Address
from semel.wire.compression import Codec

SERVERS = {"bootstrap_servers": "one:9092"}


def load(**settings: Any) -> ProducerConfig:
    return ProducerConfig.load({**SERVERS, **settings})


def test_the_defaults_of_a_producer_are_those_of_kafka_4() -> None:
    config = load()
    assert (config.acks, config.enable_idempotence, config.linger_ms, config.batch_size) == (-1, True, 5, 16_384)
    assert (config.delivery_timeout_ms, config.client.request_timeout_ms, config.max_block_ms) == (
        120_000,
        30_000,
        60_000,
    )
    assert (config.buffer_memory, config.max_request_size) == (33_554_432, 1_048_576)
    assert (config.client.retry_backoff_ms, config.client.retry_backoff_max_ms) == (100, 1_000)
    assert (config.retries, config.max_in_flight_requests_per_connection) == (2**31 - 1, 5)
    assert (config.transaction_timeout_ms, config.client.metadata_max_age_ms) == (60_000, 300_000)
    assert config.compression_type is Codec.NONE


def test_the_defaults_of_a_consumer_are_those_of_kafka_4() -> None:
    config = ConsumerConfig.load(SERVERS)
    assert config.isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert config.auto_offset_reset is OffsetReset.LATEST
    assert (config.fetch_min_bytes, config.fetch_max_wait_ms, config.fetch_max_bytes) == (1, 500, 52_428_800)
    assert (config.max_partition_fetch_bytes, config.max_poll_records, config.check_crcs) == (1_048_576, 500, True)
    assert (config.session_timeout_ms, config.heartbeat_interval_ms, config.max_poll_interval_ms) == (
        45_000,
        3_000,
        300_000,
    )
    assert (config.enable_auto_commit, config.auto_commit_interval_ms, config.is_auto_commit) == (True, 5_000, False)
    assert config.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert (config.group_protocol, config.group_id, config.group_instance_id) == ("classic", None, None)


@pytest.mark.parametrize("heartbeat_ms", [6_000, 6_001])
def test_a_heartbeat_interval_that_is_not_below_the_session_timeout_is_refused(heartbeat_ms: int) -> None:
    rule = rf"heartbeat\.interval\.ms \({heartbeat_ms}\) must be less than session\.timeout\.ms \(6000\)"
    with pytest.raises(SettingError, match=rule):
        ConsumerConfig.load({**SERVERS, "heartbeat_interval_ms": heartbeat_ms, "session_timeout_ms": 6_000})


@pytest.mark.parametrize("name", ["session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy"])
def test_what_the_broker_decides_cannot_be_set_with_the_consumer_protocol(name: str) -> None:
    with pytest.raises(SettingError, match=r"together with group\.protocol=consumer"):
        ConsumerConfig.load({**SERVERS, "group_protocol": "consumer", name: "range" if "strategy" in name else 5_000})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"group_id": ""}, "group.id is empty"),
        ({"group_instance_id": ""}, "group.instance.id is empty"),
        ({"group_remote_assignor": "range"}, "group.remote.assignor needs group.protocol=consumer"),
        ({"partition_assignment_strategy": ""}, "names no assignor"),
        ({"group_protocol": "modern"}, "the value must be one of classic, consumer"),
    ],
)
def test_settings_of_groups_that_make_no_sense_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingError, match=re.escape(reason)):
        ConsumerConfig.load({**SERVERS, **settings})


@pytest.mark.parametrize("servers", ["one:9092,two:9093", ["one:9092", "two:9093"], ("one:9092", " two:9093 ")])
def test_bootstrap_servers_are_text_or_a_list(servers: object) -> None:
    assert load(bootstrap_servers=servers).client.bootstrap_servers == (Address("one", 9092), Address("two", 9093))


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert load(bootstrap_servers="[::1]:9092").client.bootstrap_servers == (Address("::1", 9092),)


@pytest.mark.parametrize("servers", [None, "", "one", "one:port", ":9092", "one:0", "one:70000"])
def test_an_address_that_is_none_is_refused(servers: object) -> None:
    with pytest.raises(SettingError, match=re.escape("bootstrap.servers")):
        load(bootstrap_servers=servers)


def test_text_and_values_mean_the_same() -> None:
    assert load(linger_ms="20", acks="all", enable_idempotence="true") == load(
        linger_ms=20, acks=-1, enable_idempotence=True
    )


def test_an_unknown_setting_names_the_nearest_one() -> None:
    with pytest.raises(SettingError, match=re.escape("linger.ns; did you mean linger.ms")):
        load(linger_ns=3)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("sasl_kerberos_service_name", "PLAIN, SCRAM and OAUTHBEARER"),
        ("key_serializer", "keys are bytes"),
        ("partitioner_class", "partitioner="),
    ],
)
def test_a_setting_that_kafka_has_and_this_client_has_not_says_why(setting: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        load(**{setting: "x"})


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"linger_ms": -1}, "linger.ms: the value must be at least 0"),
        ({"acks": 2}, "acks: the value must be one of all, -1, 0, 1"),
        ({"compression_type": "brotli"}, "compression.type: the value must be one of none, gzip"),
        ({"batch_size": "large"}, "batch.size: not a number of type INT"),
        ({"transactional_id": ""}, "transactional.id is empty"),
    ],
)
def test_a_value_that_breaks_its_rule_is_refused_with_the_rule(settings: dict[str, object], rule: str) -> None:
    with pytest.raises(SettingError, match=re.escape(rule)):
        load(**settings)


CONTRADICTING = [
    ({"acks": 1}, "acks=1"),
    ({"acks": 0}, "acks=0"),
    ({"retries": 0}, "retries=0"),
    ({"max_in_flight_requests_per_connection": 6}, "max.in.flight.requests.per.connection=6"),
]


@pytest.mark.parametrize(("setting", "named"), CONTRADICTING)
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [({"transactional_id": "copy-1"}, "transactional.id"), ({"enable_idempotence": True}, "enable.idempotence=true")],
)
def test_a_contradiction_is_refused_and_names_both_settings(
    setting: dict[str, object], named: str, asked: dict[str, object], wanted: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(f"{wanted} contradicts {named}")):
        load(**setting, **asked)


def test_transactions_without_idempotence_are_refused() -> None:
    with pytest.raises(SettingError, match=re.escape("transactional.id contradicts enable.idempotence=false")):
        load(transactional_id="copy-1", enable_idempotence=False)


@pytest.mark.parametrize("setting", [{"acks": 1}, {"acks": 0}, {"retries": 0}])
def test_idempotence_that_nobody_asked_for_is_turned_off_with_a_log_line(
    setting: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert load(**setting).enable_idempotence is False
    (name, value), *_ = setting.items()
    assert f"enable.idempotence is off because {name}={value}" in caplog.text


def test_more_than_five_in_flight_is_refused_even_if_nobody_asked_for_idempotence() -> None:
    """As in Kafka 4: it is on, and order is what everybody expects of it."""
    with pytest.raises(SettingError, match=re.escape("max.in.flight.requests.per.connection=6")):
        load(max_in_flight_requests_per_connection=6)
    config = load(max_in_flight_requests_per_connection=6, enable_idempotence=False)
    assert config.max_in_flight_requests_per_connection == 6


def test_a_delivery_timeout_that_is_shorter_than_a_request_is_refused_if_asked_for_and_else_raised() -> None:
    with pytest.raises(
        SettingError, match=re.escape("delivery.timeout.ms=1000 contradicts linger.ms=5 and request.timeout.ms=30000")
    ):
        load(delivery_timeout_ms=1_000)
    assert load(request_timeout_ms=200_000).delivery_timeout_ms == 200_005
