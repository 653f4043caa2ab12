"""The settings of groups, client metrics and loggers over the wire, and that they take effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages import alter_configs, incremental_alter_configs
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.raw_client import RawClient

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def alter(client: RawClient, kind: int, name: str, *changes: tuple[str, int, str | None]) -> tuple[int, str | None]:
    configs = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
    (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


def described(client: RawClient, kind: int, name: str) -> dict[str, tuple[str | None, int, list[tuple[str, int]]]]:
    """Value, source and synonyms with their sources, by setting."""
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], include_synonyms=True)
    (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, request).results
    assert (result.error_code, result.error_message) == (0, None)
    return {
        entry.name: (entry.value, entry.config_source, [(one.name, one.source) for one in entry.synonyms])
        for entry in result.configs
    }


def listed(client: RawClient, *types: int, version: int = 1) -> list[tuple[int, str]]:
    response = client.call(ApiKey.LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(list(types)))
    assert response.error_code == 0
    return [(one.resource_type, one.resource_name) for one in response.config_resources]


def interval_told(client: RawClient, group_id: str) -> int:
    """The heartbeat interval that a member of the group is told when it joins."""
    client.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]))
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    response = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert response.error_code == 0, response.error_message
    interval_ms: int = response.heartbeat_interval_ms
    return interval_ms


def test_a_setting_of_a_group_is_told_with_its_synonyms_and_takes_effect(client: RawClient) -> None:
    assert described(client, GROUP, "g")[HEARTBEAT] == ("5000", 5, [("group.consumer.heartbeat.interval.ms", 5)])
    assert interval_told(client, "g") == 5000

    assert alter(client, GROUP, "g", (HEARTBEAT, SET, "6000"), (SESSION, SET, "50000")) == (0, None)

    own, inherited = (HEARTBEAT, 8), ("group.consumer.heartbeat.interval.ms", 5)
    assert described(client, GROUP, "g")[HEARTBEAT] == ("6000", 8, [own, inherited])
    assert interval_told(client, "g") == 6000
    assert interval_told(client, "h") == 5000
    assert listed(client, GROUP) == [(GROUP, "g")]

    assert alter(client, GROUP, "g", (HEARTBEAT, DELETE, None), (SESSION, DELETE, None)) == (0, None)
    assert interval_told(client, "g") == 5000
    assert listed(client, GROUP) == []


def test_a_setting_of_a_group_survives_a_restart() -> None:
    with Broker() as broker:
        with RawClient(broker.port) as client:
            alter(client, GROUP, "g/h", (HEARTBEAT, SET, "7000"))
        broker.restart()
        with RawClient(broker.port) as client:
            assert interval_told(client, "g/h") == 7000


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        (SESSION, "5", ErrorCode.INVALID_CONFIG, "group.consumer.min.session.timeout.ms (45000)"),
        (HEARTBEAT, "99999", ErrorCode.INVALID_CONFIG, "group.consumer.max.heartbeat.interval.ms (15000)"),
        ("bogus", "5", ErrorCode.INVALID_CONFIG, "Unknown group config name: bogus"),
        ("streams.session.timeout.ms", "5", ErrorCode.INVALID_CONFIG, "Semel has no streams groups"),
    ],
)
def test_what_a_group_cannot_have_is_refused(
    client: RawClient, name: str, value: str, code: ErrorCode, said: str
) -> None:
    refused, message = alter(client, GROUP, "refused", (name, SET, value))
    assert (refused, said in str(message)) == (code, True)
    assert (GROUP, "refused") not in listed(client, GROUP)


def test_a_subscription_to_client_metrics_is_kept_listed_and_removed(client: RawClient) -> None:
    changes = (("metrics", SET, "org.apache.kafka.producer."), ("interval.ms", SET, "5000"))
    assert alter(client, CLIENT_METRICS, "m", *changes) == (0, None)
    assert described(client, CLIENT_METRICS, "m") == {
        "interval.ms": ("5000", 7, [("interval.ms", 7)]),
        "match": ("", 5, []),
        "metrics": ("org.apache.kafka.producer.", 7, [("metrics", 7)]),
    }
    assert listed(client, version=0) == listed(client, CLIENT_METRICS) == [(CLIENT_METRICS, "m")]
    assert alter(client, CLIENT_METRICS, "m", ("match", SET, "colour=red"))[0] == ErrorCode.INVALID_CONFIG
    assert alter(client, CLIENT_METRICS, "m", ("interval.ms", SET, "5"))[0] == ErrorCode.INVALID_REQUEST
    alter(client, CLIENT_METRICS, "m", ("metrics", DELETE, None), ("interval.ms", DELETE, None))
    assert listed(client, CLIENT_METRICS) == []


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("semel.of_a_request")
    yield found
    found.setLevel(logging.NOTSET)


def test_the_level_of_a_logger_is_read_set_and_removed(client: RawClient, logger: logging.Logger) -> None:
    before = described(client, LOGGER, "1")[logger.name][0]
    assert not logger.isEnabledFor(logging.DEBUG)

    assert alter(client, LOGGER, "1", (logger.name, SET, "DEBUG")) == (0, None)

    assert logger.isEnabledFor(logging.DEBUG)
    assert described(client, LOGGER, "1")[logger.name] == ("DEBUG", 6, [])
    assert alter(client, LOGGER, "1", (logger.name, DELETE, None)) == (0, None)
    assert described(client, LOGGER, "1")[logger.name][0] == before


def test_a_level_that_is_only_validated_or_refused_is_not_set(client: RawClient, logger: logging.Logger) -> None:
    configs = [incremental_alter_configs.AlterableConfig(logger.name, SET, "DEBUG")]
    resource = incremental_alter_configs.AlterConfigsResource(LOGGER, "1", configs)
    one = incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only=True)
    twice = incremental_alter_configs.IncrementalAlterConfigsRequest([resource, resource])
    codes = [
        [result.error_code for result in client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses]
        for request in (one, twice)
    ]
    assert codes == [[0], [ErrorCode.INVALID_REQUEST] * 2]
    assert alter(client, LOGGER, "1", (logger.name, SET, "LOUD"))[0] == ErrorCode.INVALID_CONFIG
    assert not logger.isEnabledFor(logging.DEBUG)


def test_alter_configs_alters_no_loggers(client: RawClient, logger: logging.Logger) -> None:
    configs = [alter_configs.AlterableConfig(logger.name, "DEBUG")]
    resource = alter_configs.AlterConfigsResource(LOGGER, "1", configs)
    (result,) = client.call(ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest([resource])).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert not logger.isEnabledFor(logging.DEBUG)


def test_results_stand_in_the_order_asked_whatever_their_kind(client: RawClient, logger: logging.Logger) -> None:
    asked = [(GROUP, "a", HEARTBEAT, "6000"), (LOGGER, "1", logger.name, "WARN"), (GROUP, "b", HEARTBEAT, "1")]
    resources = [
        incremental_alter_configs.AlterConfigsResource(
            kind, name, [incremental_alter_configs.AlterableConfig(config, SET, value)]
        )
        for kind, name, config, value in asked
    ]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources, validate_only=True)
    results = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert [(result.resource_type, result.resource_name, result.error_code) for result in results] == [
        (GROUP, "a", 0),
        (LOGGER, "1", 0),
        (GROUP, "b", ErrorCode.INVALID_CONFIG),
    ]


def test_threads_that_semel_does_not_have_are_accepted_with_a_note(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert alter(client, BROKER, "1", ("num.network.threads", SET, "4")) == (0, None)
    assert described(client, BROKER, "1")["num.network.threads"][:2] == ("4", 2)
    assert any(message.startswith("num.network.threads=4 is accepted. No effect") for message in caplog.messages)
    assert alter(client, BROKER, "1", ("num.network.threads", SET, "0"))[0] == ErrorCode.INVALID_REQUEST
    assert alter(client, BROKER, "1", ("num.network.threads", DELETE, None)) == (0, None)


def test_all_resources_are_listed_by_type(client: RawClient, topic: str) -> None:
    everything = listed(client)
    assert {(TOPIC, topic), (BROKER, "1"), (LOGGER, "1")} <= set(everything)
    assert listed(client, BROKER, BROKER) == [(BROKER, "1")]
    refused = client.call(ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest([1]))
    assert (refused.error_code, refused.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
