"""The naive rules beside Apache Kafka 4.3 itself: its answers refuse, serve and name what the rules say.

So the rules of ``kafka_rules.py``, which ``test_access_matrix.py`` holds Semel to, are Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.security.acls import CLUSTER_NAME, AclBinding, wire_fields
from semel.wire.apis import ApiKey
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType
from semel.wire.messages.create_acls import AclCreation, CreateAclsRequest
from semel.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from semel.wire.messages.describe_acls import DescribeAclsRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.raw_client import RawClient
from tests.broker.secured import ALICE
from tests.properties.security.access_world import World
from tests.properties.security.kafka_rules import RULES, VERSIONS
from tests.properties.security.test_access_matrix import ALL_RIGHTS, HERE, NAMES, check
from tools.brokers import apache_kafka
from tools.patience import wait_until
from tools.ports import HOST, free_port
from tools.server import Server, running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    'required user_alice="secret";',
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "true",
}
ANY = int(AclOperation.ANY)


class KafkaAcls:
    """Of one broker, changed by the difference."""

    def __init__(self, root: RawClient) -> None:
        self._root = root
        self._now: set[AclBinding] = set()

    def load(self, wanted: Collection[AclBinding]) -> None:
        target = set(wanted)
        gone, new = self._now - target, target - self._now
        if gone:
            filters = [DeleteAclsFilter(*wire_fields(one)) for one in gone]
            answer = self._root.call(ApiKey.DELETE_ACLS, 2, DeleteAclsRequest(filters))
            assert {result.error_code for result in answer.filter_results} == {0}, answer
        if new:
            creations = [AclCreation(*wire_fields(one)) for one in new]
            answer = self._root.call(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(creations))
            assert {result.error_code for result in answer.results} == {0}, answer
        self._now = target
        wait_until(lambda: self._described() == target, "the broker has the ACLs")

    def _described(self) -> set[AclBinding]:
        answer = self._root.call(ApiKey.DESCRIBE_ACLS, 2, DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY))
        return {
            AclBinding.from_wire(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in answer.resources
            for acl in resource.acls
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    open_port, guarded_port, controller_port = free_port(), free_port(), free_port()
    listeners = f"PLAINTEXT://{HOST}:{open_port},SASL_PLAINTEXT://{HOST}:{guarded_port}"
    server = apache_kafka(
        folder,
        settings={
            **SETTINGS,
            "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        },
        heap="512m",
    )
    with (
        running(Server(replace(server.launch, port=open_port))),
        RawClient(open_port) as root,
        RawClient(guarded_port) as alice,
    ):
        assert alice.call(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")).error_code == 0
        told = alice.call(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0secret"))
        assert told.error_code == 0, told
        yield World(root, alice, KafkaAcls(root).load)


def binding(random: Random, about: Sequence[tuple[AclOperation, AclResourceType]]) -> AclBinding:
    """Mostly of the rights that make a difference, and one that Kafka takes: the cluster has one name."""
    operation, kind = random.choice(about if about and random.random() < 0.8 else ALL_RIGHTS)
    of_cluster = kind is AclResourceType.CLUSTER
    name = CLUSTER_NAME if of_cluster else random.choice(NAMES[kind])
    is_prefix = not of_cluster and name != "*" and random.random() < 0.5
    return AclBinding(
        kind,
        name,
        random.choice((ALICE, ALICE, "User:*", "User:bob")),
        operation,
        random.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
        random.choice(("*", "*", HERE, "10.0.0.1")),
        AclPatternType.PREFIXED if is_prefix else AclPatternType.LITERAL,
    )


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", f"v{value}"))
def test_the_rules_are_those_of_kafka(world: World, key: ApiKey, version: int) -> None:
    """By chance and not by Hypothesis: to change ACLs takes too long for its search of a smallest example."""
    random, rule = Random(f"{key.name} {version}"), RULES[key]
    for number in range(3 * rule.variants):
        rules = {binding(random, rule.about) for _ in range(random.randrange(6))}
        check(world, key, version, list(rules), number)
