"""CreateAcls, DescribeAcls and DeleteAcls of a running broker, asked by our own admin client and by others'."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from kafka import admin as kafka_python

from semel.admin import AclBinding, AclFilter, AclOperation, AclPatternType, AclPermission, AclResourceType
from semel.blocking import Admin
from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.errors import ErrorCode, KafkaError
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.create_acls import AclCreation, CreateAclsRequest
from semel.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from semel.wire.messages.describe_acls import DescribeAclsRequest
from tests.broker.raw_client import RawClient

confluent: Any = confluent_kafka.admin  # Its types do not say that a filter may leave something open.
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
READ, WRITE = AclOperation.READ, AclOperation.WRITE


@pytest.fixture
def secured() -> Iterator[Broker]:
    """Everything is allowed to the clients of this file; what is refused to others is tested elsewhere."""
    with Broker(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS") as broker:
        yield broker


def test_rules_are_created_described_deleted_and_survive_a_crash(secured: Broker) -> None:
    reads = AclBinding(TOPIC, "orders", "User:alice", READ)
    denied = AclBinding(TOPIC, "ord", "User:mallory", WRITE, AclPermission.DENY, "10.0.0.7", AclPatternType.PREFIXED)
    joins = AclBinding(GROUP, "g", "User:alice", READ)
    with Admin(bootstrap_servers=secured.bootstrap_servers) as admin:
        assert admin.acls.create([reads, denied, joins, reads]).failed == {}
        assert admin.acls.describe() == (reads, denied, joins)
        covering = AclFilter(TOPIC, "orders", pattern_type=AclPatternType.MATCH)
        assert set(admin.acls.describe(covering)) == {reads, denied}
        assert admin.acls.delete([AclFilter(principal="User:alice", resource_type=TOPIC)]).all() is not None
    secured.restart(kill=True)
    with Admin(bootstrap_servers=secured.bootstrap_servers) as admin:
        assert set(admin.acls.describe()) == {denied, joins}


def test_a_bad_rule_is_refused_alone(secured: Broker) -> None:
    good = AclBinding(TOPIC, "orders", "User:alice", READ)
    bad = AclBinding(AclResourceType.CLUSTER, "orders", "User:alice", READ)
    with Admin(bootstrap_servers=secured.bootstrap_servers) as admin:
        created = admin.acls.create([bad, good])
        assert {binding: error.code for binding, error in created.failed.items()} == {bad: ErrorCode.INVALID_REQUEST}
        assert admin.acls.describe() == (good,)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_every_item_says_that_there_is_none(client: RawClient, version: int) -> None:
    creation = AclCreation(TOPIC, "orders", AclPatternType.LITERAL, "User:alice", "*", READ, AclPermission.ALLOW)
    everything = (AclResourceType.ANY, None, AclPatternType.ANY, None, None, AclOperation.ANY, AclPermission.ANY)
    created = client.call(ApiKey.CREATE_ACLS, version, CreateAclsRequest([creation, creation]))
    deleted = client.call(ApiKey.DELETE_ACLS, version, DeleteAclsRequest([DeleteAclsFilter(*everything)]))
    described = client.call(ApiKey.DESCRIBE_ACLS, version, DescribeAclsRequest(*everything))
    disabled, text = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
    assert [(one.error_code, one.error_message) for one in created.results] == [(disabled, text)] * 2
    assert [(one.error_code, one.error_message) for one in deleted.filter_results] == [(disabled, text)]
    assert described.error_code == disabled
    assert described.error_message == "No Authorizer is configured on the broker"


def test_our_client_says_that_there_is_no_authorizer(broker: Broker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin, pytest.raises(KafkaError) as raised:
        admin.acls.describe()
    assert raised.value.code is ErrorCode.SECURITY_DISABLED


def test_confluent_kafka_creates_describes_and_deletes(secured: Broker) -> None:
    admin = confluent.AdminClient({"bootstrap.servers": secured.bootstrap_servers})
    binding = confluent.AclBinding(
        confluent.ResourceType.TOPIC,
        "orders",
        confluent.ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        confluent.AclOperation.WRITE,
        confluent.AclPermissionType.ALLOW,
    )
    everything = confluent.AclBindingFilter(
        confluent.ResourceType.ANY,
        None,
        confluent.ResourcePatternType.ANY,
        None,
        None,
        confluent.AclOperation.ANY,
        confluent.AclPermissionType.ANY,
    )
    assert admin.create_acls([binding])[binding].result(10) is None
    assert admin.describe_acls(everything).result(10) == [binding]
    assert admin.delete_acls([everything])[everything].result(10) == [binding]
    assert admin.describe_acls(everything).result(10) == []


def test_kafka_python_creates_describes_and_deletes(secured: Broker) -> None:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=secured.bootstrap_servers)
    rule = kafka_python.ACL(
        principal="User:alice",
        host="*",
        operation=kafka_python.ACLOperation.READ,
        permission_type=kafka_python.ACLPermissionType.ALLOW,
        resource_pattern=kafka_python.ResourcePattern(kafka_python.ResourceType.TOPIC, "orders"),
    )
    everything = kafka_python.ACLFilter(
        principal=None,
        host=None,
        operation=kafka_python.ACLOperation.ANY,
        permission_type=kafka_python.ACLPermissionType.ANY,
        resource_pattern=kafka_python.ResourcePatternFilter(
            kafka_python.ResourceType.ANY, None, kafka_python.ACLResourcePatternType.ANY
        ),
    )
    assert admin.create_acls([rule]) == {"succeeded": [rule], "failed": []}
    described, _ = admin.describe_acls(everything)
    assert described == [rule]
    ((_, deleted, _),) = admin.delete_acls([everything])
    assert deleted == [rule]
    admin.close()
