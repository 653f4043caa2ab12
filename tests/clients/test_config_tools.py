"""Kafka's own kafka-configs, kafka-client-metrics, kafka-features and kafka-reassign-partitions: on Semel as on Kafka.

Each test asserts what both brokers print. Where they differ on purpose, the test is Semel's alone and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.testing import Broker
from tools.brokers import JavaFailed, apache_kafka, run_java
from tools.server import running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka"), pytest.mark.xdist_group("config-tools")]

CONFIGS = "kafka.admin.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture(scope="module")
def semel() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module", params=["semel", "kafka"])
def servers(request: pytest.FixtureRequest, semel: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "semel":
        yield semel
        return
    server = apache_kafka(tmp_path_factory.mktemp("kafka"))
    with running(server):
        yield server.bootstrap_servers


def tool(main_class: str, servers: str, *arguments: str) -> str:
    return run_java(main_class, ["--bootstrap-server", servers, *arguments])


def refusal(main_class: str, servers: str, *arguments: str) -> str:
    with pytest.raises(JavaFailed) as failed:
        tool(main_class, servers, *arguments)
    return failed.value.output


def test_settings_of_a_group(servers: str) -> None:
    group = ("--entity-type", "groups", "--entity-name", "g")
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    done = tool(CONFIGS, servers, *group, "--alter", "--add-config", f"{session}=50000,{heartbeat}=6000")
    assert "Completed updating config for group g." in done
    synonyms = f"{{DYNAMIC_GROUP_CONFIG:{heartbeat}=6000, DEFAULT_CONFIG:group.{heartbeat}=5000}}"
    for described in (tool(CONFIGS, servers, *group, "--describe"), tool(CONFIGS, servers, *group[:2], "--describe")):
        assert "Dynamic configs for group g are:" in described
        assert f"{heartbeat}=6000 sensitive=false synonyms={synonyms}" in described
        assert f"{session}=50000 sensitive=false" in described
    everything = tool(CONFIGS, servers, *group, "--describe", "--all")
    assert "consumer.assignment.interval.ms=1000 sensitive=false" in everything

    refused = refusal(CONFIGS, servers, *group, "--alter", "--add-config", f"{session}=5")
    assert "InvalidConfigurationException: consumer.session.timeout.ms" in refused
    assert "must be greater than or equal to group.consumer.min.session.timeout.ms" in refused
    unknown = refusal(CONFIGS, servers, *group, "--alter", "--add-config", "bogus=5")
    assert "InvalidConfigurationException: Unknown group config name: bogus" in unknown
    tool(CONFIGS, servers, *group, "--alter", "--delete-config", f"{session},{heartbeat}")


def test_subscriptions_to_client_metrics(servers: str) -> None:
    subscription = ("--entity-type", "client-metrics", "--entity-name", "m")
    tool(CONFIGS, servers, *subscription, "--alter", "--add-config", "metrics=[a.,b.],interval.ms=5000")
    described = tool(CONFIGS, servers, *subscription, "--describe")
    assert "metrics=a.,b. sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:metrics=a.,b.}" in described
    refused = refusal(CONFIGS, servers, *subscription, "--alter", "--add-config", "match=[foo=bar]")
    assert "InvalidConfigurationException: Illegal client matching pattern: foo=bar" in refused
    refused = refusal(CONFIGS, servers, *subscription, "--alter", "--add-config", "interval.ms=5")
    assert "InvalidRequestException: Invalid value 5 for" in refused

    tool(CLIENT_METRICS, servers, "--alter", "--name", "n", "--interval", "1000")
    assert tool(CLIENT_METRICS, servers, "--list").split() == ["m", "n"]
    assert "interval.ms=1000\n  match=\n  metrics=" in tool(CLIENT_METRICS, servers, "--describe", "--name", "n")
    tool(CLIENT_METRICS, servers, "--delete", "--name", "n")
    assert tool(CLIENT_METRICS, servers, "--list").split() == ["m"]


def test_levels_of_loggers(servers: str) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    before = tool(CONFIGS, servers, *loggers, "--describe")
    assert "Dynamic configs for broker-logger 1 are:" in before
    (level,) = [line.split("=")[1].split()[0] for line in before.splitlines() if line.startswith("  root=")]
    done = tool(CONFIGS, servers, *loggers, "--alter", "--add-config", "root=FATAL")
    assert "Completed updating config for broker-logger 1." in done
    assert "  root=FATAL sensitive=false synonyms={}" in tool(CONFIGS, servers, *loggers, "--describe")
    tool(CONFIGS, servers, *loggers, "--alter", "--add-config", f"root={level}")
    assert "not a supported log level" in refusal(CONFIGS, servers, *loggers, "--alter", "--add-config", "root=LOUD")
    assert "Invalid broker logger(s): nope" in refusal(
        CONFIGS, servers, *loggers, "--alter", "--add-config", "nope=DEBUG"
    )
    removed = refusal(CONFIGS, servers, *loggers, "--alter", "--delete-config", "root")
    assert "Removing the log level of the root logger is not allowed" in removed


def test_numbers_of_threads(servers: str) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    tool(CONFIGS, servers, *broker, "--alter", "--add-config", "num.network.threads=4,num.io.threads=9")
    tool(
        CONFIGS, servers, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "num.io.threads=7"
    )
    described = tool(CONFIGS, servers, *broker, "--describe")
    assert "num.network.threads=4 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:num.network.threads=4, " in described
    assert (
        "synonyms={DYNAMIC_BROKER_CONFIG:num.io.threads=9, DYNAMIC_DEFAULT_BROKER_CONFIG:num.io.threads=7, "
        "DEFAULT_CONFIG:num.io.threads=8}"
    ) in described


def test_a_setting_of_a_topic_has_the_brokers_synonyms(servers: str) -> None:
    tool(TOPICS, servers, "--create", "--topic", "synonyms", "--config", "retention.bytes=5")
    everyone = ("--entity-type", "brokers", "--entity-default")
    tool(CONFIGS, servers, *everyone, "--alter", "--add-config", "log.retention.ms=88000")
    described = tool(CONFIGS, servers, "--entity-type", "topics", "--entity-name", "synonyms", "--describe", "--all")
    tool(CONFIGS, servers, *everyone, "--alter", "--delete-config", "log.retention.ms")
    assert (
        "retention.ms=88000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=88000, "
        "DEFAULT_CONFIG:log.retention.hours=168}"
    ) in described
    assert (
        "retention.bytes=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.bytes=5, "
        "DEFAULT_CONFIG:log.retention.bytes=-1}"
    ) in described


def test_levels_of_features(servers: str) -> None:
    described = tool(FEATURES, servers, "describe")
    (line,) = [line for line in described.splitlines() if "transaction.version" in line]
    assert "SupportedMaxVersion: 2" in line
    assert "FinalizedVersionLevel: 2" in line
    assert "upgraded to 2" in tool(FEATURES, servers, "upgrade", "--feature", "transaction.version=2")
    refused = refusal(FEATURES, servers, "upgrade", "--feature", "transaction.version=3")
    assert "Invalid update version 3 for feature transaction.version." in refused
    assert "only supports versions 0-2" in refused
    assert "does not support this feature" in refusal(FEATURES, servers, "upgrade", "--feature", "bogus.version=1")


def test_reassignments(servers: str, tmp_path: Path) -> None:
    tool(TOPICS, servers, "--create", "--topic", "moved", "--partitions", "2")
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    one = {"topic": "moved", "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [one]}))
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    file = ("--reassignment-json-file", str(plan))
    assert "No partition reassignments found." in tool(REASSIGN, servers, "--list")
    assert "Successfully started partition reassignment for moved-0" in tool(REASSIGN, servers, "--execute", *file)
    assert "Reassignment of partition moved-0 is completed." in tool(REASSIGN, servers, "--verify", *file)
    assert "None of the specified partition reassignments are active." in tool(REASSIGN, servers, "--cancel", *file)
    move = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1")
    assert '"replicas":[1],"log_dirs":["any"]' in tool(REASSIGN, servers, *move)
    plan.write_text(json.dumps({"version": 1, "partitions": [{**one, "replicas": [1, 7]}]}))
    assert "Unknown broker id 7" in refusal(REASSIGN, servers, "--execute", *file)


def test_a_tool_that_asks_for_the_quorum_is_told_that_there_is_none(semel: str) -> None:
    """Semel's alone: its metadata is in a file or in ZooKeeper."""
    assert "UnsupportedVersionException" in refusal(QUORUM, semel, "describe", "--status")


def test_a_level_of_a_feature_does_not_change_while_the_broker_runs(semel: str) -> None:
    """Semel's alone: here a level is a setting."""
    refused = refusal(FEATURES, semel, "downgrade", "--feature", "transaction.version=1")
    assert "The cluster was made with transaction.version=2" in refused
