"""Kafka's own kafka-configs, which logs in with SCRAM, and makes and removes users: unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel import blocking
from semel.admin import ScramMechanism
from semel.errors import AuthorizationFailed
from semel.testing import Broker
from tools.brokers import run_java

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka"), pytest.mark.xdist_group("security-tools")]

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
CAROL = ("--entity-type", "users", "--entity-name", "carol")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(users={"admin": "admins"}) as running:
        yield running


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("login") / "admin.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} required username="admin" password="admins";\n'
    )
    return str(path)


def configs(broker: Broker, login: str, *arguments: str) -> str:
    servers = ["--bootstrap-server", broker.bootstrap_servers, "--command-config", login]
    return run_java("kafka.admin.ConfigCommand", [*servers, *arguments])


def passwords(broker: Broker) -> dict[ScramMechanism, int]:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **broker.client_security) as admin:
        return dict(admin.users.list().get("carol", {}))


def can_log_in(broker: Broker, password: str) -> bool:
    settings = {**broker.client_security, "sasl_username": "carol", "sasl_password": password}
    try:
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **settings) as carol:
            carol.topics.list()
    except AuthorizationFailed:
        return False
    return True


def test_kafka_configs_makes_shows_and_removes_users(broker: Broker, login: str) -> None:
    configs(broker, login, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=carols]", *CAROL)
    assert passwords(broker) == {SHA_512: 8192}
    assert can_log_in(broker, "carols")
    assert not can_log_in(broker, "wrong")
    configs(broker, login, "--alter", "--add-config", "SCRAM-SHA-256=[password=carols]", *CAROL)
    assert passwords(broker) == {SHA_512: 8192, SHA_256: 4096}
    shown = configs(broker, login, "--describe", *CAROL)
    assert "SCRAM-SHA-512=iterations=8192" in shown
    assert "SCRAM-SHA-256=iterations=4096" in shown
    assert "carols" not in shown

    configs(broker, login, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=4096,password=new]", *CAROL)
    assert can_log_in(broker, "new")
    assert not can_log_in(broker, "carols")
    configs(broker, login, "--alter", "--delete-config", "SCRAM-SHA-512", *CAROL)
    assert passwords(broker) == {SHA_256: 4096}
    assert not can_log_in(broker, "new")
