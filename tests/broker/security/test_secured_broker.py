"""``semel.testing.Broker`` with users, ACLs and TLS: what a test of an application starts."""

from __future__ import annotations

import confluent_kafka.admin
import pytest

from semel import blocking
from semel.admin import AclBinding, AclOperation, AclResourceType
from semel.errors import AuthorizationFailed, KafkaError
from semel.testing import Broker
from tools.patience import PATIENCE_S

USERS = {"admin": "the admin's", "alice": "sésame, ouvre=toi"}


@pytest.mark.parametrize("tls", [False, True])
def test_users_log_in_and_others_do_not(tls: bool) -> None:
    with Broker(users=USERS, tls=tls) as broker:
        for user in (None, *USERS):
            security = broker.client_security if user is None else broker.client_security_of(user)
            assert security["security_protocol"] == ("SASL_SSL" if tls else "SASL_PLAINTEXT")
            with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **security) as admin:
                assert set(admin.users.list()) == set(USERS)
        wrong = {**broker.client_security, "sasl_password": "wrong"}
        with (
            pytest.raises(AuthorizationFailed),
            blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **wrong) as admin,
        ):
            admin.topics.list()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_over_tls_there_is_plain_too(mechanism: str) -> None:
    with Broker(users=USERS, tls=True) as broker:
        security = {**broker.client_security, "sasl_mechanism": mechanism}
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **security) as admin:
            assert list(admin.topics.list()) == []


def test_users_and_their_new_passwords_are_there_after_a_restart() -> None:
    with Broker(users=USERS) as broker:
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **broker.client_security) as admin:
            admin.users.upsert("alice", "new")
        broker.restart(kill=True)
        security = {**broker.client_security_of("alice"), "sasl_password": "new"}
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **security) as admin:
            assert set(admin.users.list()) == set(USERS)


def test_rules_say_what_a_user_may_do() -> None:
    rules = [AclBinding(AclResourceType.TOPIC, "mine", "User:alice", AclOperation.DESCRIBE)]
    with Broker(users=USERS, acls=rules, super_users="User:admin") as broker:
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **broker.client_security_of("admin")) as admin:
            admin.topics.create("mine")
            admin.topics.create("theirs")
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **broker.client_security_of("alice")) as alice:
            assert list(alice.topics.list()) == ["mine"]
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                alice.topics.create("another")


def test_other_clients_get_in_with_kafkas_own_names() -> None:
    with Broker(users=USERS) as broker:
        admin = confluent_kafka.admin.AdminClient(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": USERS["alice"],
            }
        )
        assert len(admin.list_topics(timeout=PATIENCE_S).brokers) == 1
