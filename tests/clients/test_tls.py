"""Real clients over TLS: they write and read, and are refused where a certificate is not good on either side."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from semel.testing import Broker
from tests.clients.secured_clients import JAVA, KCAT, PYTHON_CLIENTS, Identity, Refused, SecuredClient

CLIENTS = [
    *(pytest.param(client, id=client.name) for client in PYTHON_CLIENTS),
    pytest.param(KCAT, id="kcat", marks=pytest.mark.needs("kcat")),
    pytest.param(JAVA, id="java", marks=[pytest.mark.kafka, pytest.mark.needs("kafka")]),
]
HOST = "127.0.0.1"


def written(file: Path, leaf: trustme.LeafCert) -> Path:
    """Key and certificates in one file, as Kafka has them. The key is in the form that Java reads too."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(pem + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    return file


class Certificates:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.broker = written(folder / "broker.pem", self.authority.issue_cert(HOST))
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        self.authority.cert_pem.write_to_path(folder / "clients.pem")
        leaf = self.authority.issue_cert("duke@example.org", common_name="duke", organization_unit_name="payments")
        client = written(folder / "client.pem", leaf)
        self.known = Identity(folder / "ca.pem", client)
        self.unknown = Identity(folder / "ca.pem")

    def settings(self, client_auth: str = "none", **others: object) -> dict[str, object]:
        return {
            "listeners": f"SSL://{HOST}:0",
            "ssl_keystore_location": self.broker,
            "ssl_truststore_location": self.folder / "ca.pem",
            "ssl_client_auth": client_auth,
            **others,
        }


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def strict(certificates: Certificates) -> Iterator[Broker]:
    """It wants a certificate of every client."""
    rules = "RULE:^CN=(.*?),OU=payments.*$/$1/U,DEFAULT"
    with Broker(**certificates.settings("required", ssl_principal_mapping_rules=rules)) as broker:  # type: ignore[arg-type]
        yield broker


def principals(broker: Broker) -> set[str]:
    assert broker._broker is not None
    assert broker._broker._running is not None
    return {connection.principal for connection in list(broker._broker._running.server.connections)}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_writes_and_reads_over_tls(certificates: Certificates, client: SecuredClient) -> None:
    with Broker(**certificates.settings()) as broker:  # type: ignore[arg-type]
        for value in (b"first", b"second"):
            client.write(broker.bootstrap_servers, "t", certificates.unknown, value)
        assert client.read(broker.bootstrap_servers, "t", certificates.unknown, 2) == [b"first", b"second"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_with_a_certificate_is_let_in_where_one_is_required(
    certificates: Certificates, strict: Broker, client: SecuredClient
) -> None:
    client.write(strict.bootstrap_servers, client.name, certificates.known, b"known")
    assert client.read(strict.bootstrap_servers, client.name, certificates.known, 1) == [b"known"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_the_certificate_that_is_required_is_refused(
    certificates: Certificates, strict: Broker, client: SecuredClient
) -> None:
    with pytest.raises(Refused):
        client.write(strict.bootstrap_servers, "refused", certificates.unknown, b"x")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_trusts_another_authority_refuses_the_broker(
    certificates: Certificates, strict: Broker, client: SecuredClient, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with pytest.raises(Refused):
        client.write(strict.bootstrap_servers, "refused", Identity(tmp_path / "other.pem"), b"x")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_refuses_a_broker_whose_certificate_has_expired(
    certificates: Certificates, client: SecuredClient, tmp_path: Path
) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    expired = certificates.authority.issue_cert(HOST, not_after=yesterday)
    settings = certificates.settings(ssl_keystore_location=written(tmp_path / "expired.pem", expired))
    with Broker(**settings) as broker, pytest.raises(Refused):  # type: ignore[arg-type]
        client.write(broker.bootstrap_servers, "refused", certificates.unknown, b"x")


def test_a_client_is_known_by_the_rule_that_fits_its_certificate(certificates: Certificates, strict: Broker) -> None:
    from semel import blocking

    with blocking.Admin(
        bootstrap_servers=strict.bootstrap_servers,
        security_protocol="SSL",
        ssl_truststore_location=str(certificates.known.authority),
        ssl_keystore_location=str(certificates.known.identity),
    ) as admin:
        admin.topics.list()
        assert "User:DUKE" in principals(strict)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_of_a_client_that_has_expired_is_refused(
    certificates: Certificates, strict: Broker, client: SecuredClient, tmp_path: Path
) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    leaf = certificates.authority.issue_cert("old@example.org", not_after=yesterday)
    identity = Identity(certificates.known.authority, written(tmp_path / "old.pem", leaf))
    with pytest.raises(Refused):
        client.write(strict.bootstrap_servers, "refused", identity, b"x")


def test_new_certificates_are_taken_without_a_restart_and_connections_live_on(tmp_path: Path) -> None:
    from semel import blocking

    certificates = Certificates(tmp_path)
    other = trustme.CA()
    with Broker(**certificates.settings()) as broker:  # type: ignore[arg-type]
        replaced: Callable[[], None] = lambda: replace_with(certificates.broker, other.issue_cert(HOST))  # noqa: E731
        with blocking.Producer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SSL",
            ssl_truststore_location=str(certificates.unknown.authority),
        ) as producer:
            producer.send("t", b"before").result(30)
            replaced()
            broker.clock.advance(seconds=2)
            with pytest.raises(Refused):
                PYTHON_CLIENTS[0].write(broker.bootstrap_servers, "t", certificates.unknown, b"x")
            other.cert_pem.write_to_path(tmp_path / "new.pem")
            PYTHON_CLIENTS[0].write(broker.bootstrap_servers, "t", Identity(tmp_path / "new.pem"), b"new")
            producer.send("t", b"after").result(30)
        assert [record.value for record in broker.committed("t")] == [b"before", b"new", b"after"]


def test_an_authority_that_is_taken_out_of_the_truststore_is_trusted_no_more(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    with Broker(**certificates.settings("required", ssl_truststore_location=tmp_path / "clients.pem")) as broker:  # type: ignore[arg-type]
        PYTHON_CLIENTS[0].write(broker.bootstrap_servers, "t", certificates.known, b"trusted")
        trustme.CA().cert_pem.write_to_path(tmp_path / "next.pem")
        os.replace(tmp_path / "next.pem", tmp_path / "clients.pem")
        broker.clock.advance(seconds=2)
        with pytest.raises(Refused):
            PYTHON_CLIENTS[0].write(broker.bootstrap_servers, "t", certificates.known, b"refused")
        assert [record.value for record in broker.committed("t")] == [b"trusted"]


def replace_with(file: Path, leaf: trustme.LeafCert) -> None:
    """As a tool that renews certificates does: another file under the old name."""
    os.replace(written(file.with_name("next.pem"), leaf), file)
