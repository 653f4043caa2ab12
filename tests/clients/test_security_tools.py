"""Kafka's own kafka-acls and kafka-configs on a broker with an authorizer: unmodified."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel import blocking
from semel.admin import (
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    QuotaEntity,
    Quoted,
)
from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.testing import Broker
from tools.brokers import run_java

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka"), pytest.mark.xdist_group("security-tools")]

TOPIC = AclResourceType.TOPIC


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS") as running:
        yield running


def acls(broker: Broker, *arguments: str) -> str:
    servers = ["--bootstrap-server", broker.bootstrap_servers]
    return run_java("org.apache.kafka.tools.AclCommand", [*servers, *arguments])


def rules(broker: Broker) -> set[AclBinding]:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return set(admin.acls.describe())


def test_kafka_acls_adds_lists_and_removes(broker: Broker) -> None:
    alice = ("--allow-principal", "User:alice")
    acls(broker, "--add", *alice, "--producer", "--topic", "orders")
    acls(broker, "--add", *alice, "--consumer", "--topic", "ord", "--group", "*", "--resource-pattern-type", "prefixed")
    acls(
        broker,
        "--add",
        "--deny-principal",
        "User:mallory",
        "--deny-host",
        "10.0.0.7",
        "--operation",
        "All",
        "--cluster",
    )
    written = {
        AclBinding(TOPIC, "orders", "User:alice", operation)
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
    }
    read = {
        AclBinding(TOPIC, "ord", "User:alice", operation, pattern_type=AclPatternType.PREFIXED)
        for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    } | {AclBinding(AclResourceType.GROUP, "*", "User:alice", AclOperation.READ, pattern_type=AclPatternType.PREFIXED)}
    denied = AclBinding(
        AclResourceType.CLUSTER, "kafka-cluster", "User:mallory", AclOperation.ALL, AclPermission.DENY, "10.0.0.7"
    )
    assert rules(broker) == written | read | {denied}

    listed = acls(broker, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert listed.count("principal=User:alice, host=*") == 5
    assert "patternType=PREFIXED" in listed
    assert "User:mallory" in acls(broker, "--list")

    acls(broker, "--remove", "--force", *alice, "--operation", "Write", "--topic", "orders")
    acls(broker, "--remove", "--force", "--cluster")
    left = {rule for rule in written if rule.operation is not AclOperation.WRITE}
    assert rules(broker) == left | read


def configs(broker: Broker, *arguments: str) -> str:
    return run_java("kafka.admin.ConfigCommand", ["--bootstrap-server", broker.bootstrap_servers, *arguments])


def test_kafka_configs_sets_shows_and_removes_quotas(broker: Broker) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    app = ("--entity-type", "clients", "--entity-name", "app")
    configs(broker, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=12.5", *alice)
    configs(broker, "--alter", "--add-config", "consumer_byte_rate=2048", *alice, *app)
    configs(
        broker, "--alter", "--add-config", "controller_mutation_rate=2", "--entity-type", "clients", "--entity-default"
    )
    configs(broker, "--alter", "--add-config", "connection_creation_rate=7", "--entity-type", "ips", "--entity-default")
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.quotas.describe() == {
            QuotaEntity(user="alice"): {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
            QuotaEntity(user="alice", client_id="app"): {"consumer_byte_rate": 2048.0},
            QuotaEntity(client_id=Quoted.DEFAULT): {"controller_mutation_rate": 2.0},
            QuotaEntity(ip=Quoted.DEFAULT): {"connection_creation_rate": 7.0},
        }
    shown = configs(broker, "--describe", *alice)
    assert "producer_byte_rate=1024.0" in shown
    assert "request_percentage=12.5" in shown
    assert "consumer_byte_rate=2048.0" in configs(broker, "--describe", *alice, *app)

    configs(broker, "--alter", "--delete-config", "producer_byte_rate", *alice)
    assert "producer_byte_rate" not in configs(broker, "--describe", *alice)
