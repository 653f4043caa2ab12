"""The audit log of a running broker: who was refused, and who changed what."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from semel.admin import AclBinding, AclFilter, AclOperation, AclResourceType, ConfigResource, QuotaEntity
from semel.blocking import Admin, Producer
from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.broker.requests.audited_changes import CHANGES
from semel.broker.requests.routes import SERVED
from semel.errors import KafkaError
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.raw_client import RawClient

ORDERS = AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)

# What producers, consumers and observers do.
CHANGE_NOTHING = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,  # A topic that it creates is written down by its handler.
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def changes(path: Path) -> list[tuple[str, str, str]]:
    return [
        (line["operation"], line["resource_type"], line["resource"])
        for line in lines(path)
        if line["event"] == "change"
    ]


def test_every_api_is_audited_or_known_to_change_nothing() -> None:
    assert not CHANGE_NOTHING & set(CHANGES)
    assert set(SERVED) == CHANGE_NOTHING | set(CHANGES)


def test_changes_are_written_down_with_who_made_them(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with Broker(
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:ANONYMOUS",
        audit_log_path=str(path),
        data_dir=tmp_path / "data",
    ) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.topics.create("orders", partitions=1)
            with pytest.raises(KafkaError):
                admin.topics.create("orders", partitions=1)
            admin.topics.create_partitions("orders", 2)
            admin.configs.alter(ConfigResource.topic("orders"), {"retention.ms": 1000})
            admin.acls.create([ORDERS]).all()
            admin.acls.delete([AclFilter(principal="User:alice")]).all()
            admin.quotas.alter({QuotaEntity(user="alice"): {"request_percentage": 5.0}}).all()
            admin.quotas.alter({QuotaEntity(user="alice"): {"request_percentage": 6.0}}, validate_only=True).all()
            admin.groups.alter_offsets("readers", {("orders", 0): 0}).all()
            admin.groups.delete("readers")
            with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send("orders", b"x", partition=0).result(10)
            admin.partitions.delete_records({("orders", 0): 1}).all()
            admin.topics.delete("orders")
            admin.topics.list()
        with RawClient(broker.port) as client:
            unknown = MetadataRequest(topics=[MetadataRequestTopic(name="asked-for")], allow_auto_topic_creation=True)
            client.call(ApiKey.METADATA, 12, unknown)
    rule = "allow User:alice READ on topic 'orders' from *"
    assert changes(path) == [
        ("CREATE", "TOPIC", "orders"),
        ("ALTER", "TOPIC", "orders"),
        ("ALTER_CONFIGS", "TOPIC", "orders"),
        ("CREATE", "ACL", rule),
        ("DELETE", "ACL", rule),
        ("ALTER", "QUOTA", "user alice"),
        ("ALTER", "GROUP", "readers"),
        ("DELETE", "GROUP", "readers"),
        ("DELETE", "RECORDS", "orders-0"),
        ("DELETE", "TOPIC", "orders"),
        ("CREATE", "TOPIC", "asked-for"),
    ]
    first = lines(path)[0]
    assert (first["verdict"], first["principal"], first["host"]) == ("allowed", "User:ANONYMOUS", "127.0.0.1")
    assert first["api"] == "CreateTopics"


def test_refused_requests_are_written_down_and_what_is_filtered_is_not(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with (
        Broker(
            authorizer_class_name=STANDARD_AUTHORIZER, audit_log_path=str(path), data_dir=tmp_path / "data"
        ) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        with pytest.raises(KafkaError):
            admin.topics.create("orders", partitions=1)
        assert admin.topics.list() == {}
    refused = [
        (line["event"], line["verdict"], line["api"], line["resource_type"], line["resource"]) for line in lines(path)
    ]
    assert ("request", "refused", "CreateTopics", "TOPIC", "orders") in refused
    assert {line[2] for line in refused} == {"CreateTopics"}


def test_a_client_whose_certificate_is_not_taken_is_a_login_that_was_refused(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "broker.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    shown = (
        None,
        stranger.issue_cert("mallory@example.org"),
        authority.issue_cert("old@example.org", not_after=yesterday),
        authority.issue_cert("nobody@example.org", common_name="nobody"),
        authority.issue_cert("duke@example.org", common_name="duke"),
    )
    path = tmp_path / "audit.log"
    with Broker(
        listeners="SSL://127.0.0.1:0",
        ssl_keystore_location=tmp_path / "broker.pem",
        ssl_truststore_location=tmp_path / "authority.pem",
        ssl_client_auth="required",
        ssl_principal_mapping_rules="RULE:^CN=(duke),.*$/$1/",
        audit_log_path=str(path),
        data_dir=tmp_path / "data",
    ) as broker:
        for certificate in shown:
            context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
            if certificate is not None:
                certificate.configure_cert(context)
            with contextlib.suppress(ssl.SSLError, ConnectionError), RawClient(broker.port, tls=context) as client:
                client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        assert broker._broker is not None
        assert broker._broker.metrics.logins_refused.value == 4
    refused = [(line["event"], line["verdict"], line["mechanism"], line["host"]) for line in lines(path)]
    assert refused == [("login", "refused", "TLS", "127.0.0.1")] * 4
    reasons = ("did not return a certificate", "unable to get local issuer", "expired", "gives 'CN=nobody,")
    for line, reason in zip(lines(path), reasons, strict=True):
        assert reason in line["reason"]


def test_a_large_request_is_audited_as_well(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with Broker(audit_log_path=str(path), data_dir=tmp_path / "data") as broker, RawClient(broker.port) as client:
        names = [f"topic-{number:03}" for number in range(120)]
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        client.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=topics))
    assert [name for _, _, name in changes(path)] == names


def test_a_file_that_cannot_be_opened_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        Broker(audit_log_path=os.fspath(tmp_path / "nowhere" / "audit.log"), data_dir=tmp_path / "data").start()
