"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs over the wire, and that what is altered takes effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.broker.requests.handlers import describe_configs
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages import alter_configs, incremental_alter_configs
from semel.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.broker.raw_client import RawClient, batch

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)


def describe(
    client: RawClient, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = False, docs: bool = False
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, list(keys) if keys else None)
    request = DescribeConfigsRequest([resource], include_synonyms=synonyms, include_documentation=docs)
    (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, version, request).results
    assert isinstance(result, DescribeConfigsResult)
    return result


def config(client: RawClient, kind: int, name: str, key: str, **options: bool) -> DescribeConfigsResourceResult:
    (found,) = describe(client, kind, name, key, **options).configs  # type: ignore[arg-type]
    return found


def incremental(
    client: RawClient, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1,
    validate_only: bool = False,
) -> tuple[int, str | None]:  # fmt: skip
    configs = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only)
    (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


def replace(
    client: RawClient, kind: int, name: str, configs: dict[str, str | None], *, version: int = 2
) -> tuple[int, str | None]:
    resource = alter_configs.AlterConfigsResource(
        kind, name, [alter_configs.AlterableConfig(key, value) for key, value in configs.items()]
    )
    (result,) = client.call(ApiKey.ALTER_CONFIGS, version, alter_configs.AlterConfigsRequest([resource])).responses
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_every_version_describes_a_topic(client: RawClient, name: str, version: int) -> None:
    client.create_topic(name, retention_ms="5000")

    result = describe(client, TOPIC, name, version=version)

    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, name)
    found = {entry.name: entry for entry in result.configs}
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5000", 1)
    assert (found["max.message.bytes"].value, found["max.message.bytes"].config_source) == ("1048588", 5)
    assert found["retention.ms"].config_type == (5 if version >= 3 else 0)
    assert len(found) > 20
    assert all(entry.synonyms == [] for entry in result.configs)
    assert all(not entry.documentation for entry in result.configs)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_every_version_describes_the_broker(client: RawClient, version: int) -> None:
    found = {entry.name: entry for entry in describe(client, BROKER, "1", version=version).configs}

    assert (found["node.id"].value, found["node.id"].read_only) == ("1", True)
    assert found["log.dirs"].config_source == 4
    assert not found["max.connections"].read_only


def test_only_the_keys_asked_for_are_described_and_unknown_ones_are_left_out(client: RawClient, topic: str) -> None:
    result = describe(client, TOPIC, topic, "retention.ms", "no.such.key", "segment.ms")

    assert [entry.name for entry in result.configs] == ["retention.ms", "segment.ms"]


def test_synonyms_and_documentation_are_told_to_who_asks(client: RawClient, name: str) -> None:
    client.create_topic(name, retention_ms="5000")

    found = config(client, TOPIC, name, "retention.ms", synonyms=True, docs=True)

    assert next((synonym.name, synonym.value, synonym.source) for synonym in found.synonyms) == (
        "retention.ms",
        "5000",
        1,
    )
    assert found.documentation


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_is_refused(client: RawClient, kind: int, name: str, code: ErrorCode) -> None:
    result = describe(client, kind, name)

    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_every_version_alters_single_settings_of_a_topic(client: RawClient, name: str, version: int) -> None:
    client.create_topic(name, retention_ms="5000", segment_ms="7000")

    changes = (("retention.ms", SET, "6000"), ("segment.ms", DELETE, None), ("cleanup.policy", APPEND, "compact"))
    assert incremental(client, TOPIC, name, *changes, version=version) == (0, None)

    assert config(client, TOPIC, name, "retention.ms").value == "6000"
    assert config(client, TOPIC, name, "segment.ms").config_source == 5
    assert config(client, TOPIC, name, "cleanup.policy").value == "delete,compact"
    assert incremental(client, TOPIC, name, ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert config(client, TOPIC, name, "cleanup.policy").value == "compact"


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
def test_every_version_replaces_all_settings_of_a_topic(client: RawClient, name: str, version: int) -> None:
    client.create_topic(name, retention_ms="5000")

    assert replace(client, TOPIC, name, {"segment.ms": "7000"}, version=version) == (0, None)

    assert config(client, TOPIC, name, "segment.ms").value == "7000"
    assert config(client, TOPIC, name, "retention.ms").config_source == 5


def test_an_altered_setting_takes_effect_at_once(client: RawClient, topic: str) -> None:
    large = batch(b"x" * 10_000)
    assert client.produce(topic, large).error_code == 0

    incremental(client, TOPIC, topic, ("max.message.bytes", SET, "5000"))

    assert client.produce(topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_refused_alteration_changes_nothing(client: RawClient, topic: str) -> None:
    code, text = incremental(client, TOPIC, topic, ("retention.ms", SET, "6000"), ("segment.ms", SET, "never"))

    assert code == ErrorCode.INVALID_CONFIG
    assert "never" in (text or "")
    assert config(client, TOPIC, topic, "retention.ms").config_source == 5


def test_validate_only_alters_nothing(client: RawClient, topic: str) -> None:
    assert incremental(client, TOPIC, topic, ("retention.ms", SET, "6000"), validate_only=True) == (0, None)

    assert config(client, TOPIC, topic, "retention.ms").config_source == 5


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_altered_is_refused(client: RawClient, kind: int, name: str, code: ErrorCode) -> None:
    assert incremental(client, kind, name, ("retention.ms", SET, "1"))[0] == code
    assert replace(client, kind, name, {"retention.ms": "1"})[0] == code


def test_a_broker_setting_altered_while_it_runs_takes_effect_and_survives_a_restart(name: str) -> None:
    large = batch(b"x" * 10_000)
    with Broker() as broker:
        with RawClient(broker.port) as client:
            client.create_topic(name)
            assert client.produce(name, large).error_code == 0
            assert incremental(client, BROKER, "", ("message.max.bytes", SET, "5000")) == (0, None)
            assert client.produce(name, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert config(client, BROKER, "1", "message.max.bytes").config_source == 3
            assert [entry.name for entry in describe(client, BROKER, "").configs] == ["message.max.bytes"]
        broker.restart(kill=True)
        with RawClient(broker.port) as client:
            assert client.produce(name, large).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_settings_for_one_broker_and_for_all_in_one_request_may_not_contradict_each_other() -> None:
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    wanted = [
        incremental_alter_configs.AlterConfigsResource(
            BROKER, name, [incremental_alter_configs.AlterableConfig(key, SET, value)]
        )
        for name, key, value in (("", least, "1000"), ("1", most, "10"))
    ]
    with Broker() as broker:
        with RawClient(broker.port) as client:
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(wanted, False)
            responses = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
            assert [response.error_code for response in responses] == [0, ErrorCode.INVALID_REQUEST]
        broker.restart()
        with RawClient(broker.port) as client:
            assert config(client, BROKER, "1", least).value == "1000"
            assert config(client, BROKER, "1", most).value == str(2**63 - 1)


def test_a_broker_starts_with_a_setting_that_contradicts_an_altered_one(tmp_path: Path) -> None:
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    with Broker(tmp_path) as broker, RawClient(broker.port) as client:
        assert incremental(client, BROKER, "1", (least, SET, "1000"))[0] == 0
    with Broker(tmp_path, **{most.replace(".", "_"): 10}) as broker, RawClient(broker.port) as client:
        assert config(client, BROKER, "1", most).value == "10"
        assert config(client, BROKER, "1", least).value == "0"
        assert incremental(client, BROKER, "1", (least, SET, "5"))[0] == 0
        assert config(client, BROKER, "1", least).value == "5"


def test_a_read_only_broker_setting_cannot_be_altered(client: RawClient) -> None:
    code, text = incremental(client, BROKER, "1", ("node.id", SET, "2"))

    assert code == ErrorCode.INVALID_REQUEST
    assert "node.id" in (text or "")


def test_a_topic_that_is_named_again_and_again_is_described_until_the_answer_is_full(
    client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = describe(client, TOPIC, topic, docs=True)
    monkeypatch.setattr(describe_configs, "ANSWER_BYTES_MAX", 20_000)
    for times in (20, 1200):  # The second is cut into pieces.
        resources = [DescribeConfigsResource(TOPIC, topic, None)] * times
        request = DescribeConfigsRequest(resources, include_documentation=True)
        results = client.call(ApiKey.DESCRIBE_CONFIGS, 4, request).results
        told = [result for result in results if not result.error_code]
        assert 1 < len(told) < 10
        assert all(result == alone for result in told)
        assert {result.error_code for result in results[len(told) :]} == {ErrorCode.INVALID_REQUEST}
        assert "ask for fewer resources at once" in results[-1].error_message
