"""Our clients on an Apache Kafka that wants TLS and SASL, with certificates and users made here."""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives import serialization

from semel import blocking
from semel.errors import AuthorizationFailed
from tests.clients.authorization_server import authorization_server
from tools.brokers import apache_kafka
from tools.kafka_jars import KAFKA_3, KAFKA_4
from tools.patience import PATIENCE_MS, PATIENCE_S
from tools.ports import HOST, free_port
from tools.server import Server, running

pytestmark = pytest.mark.kafka

CLUSTERS = [
    pytest.param(version, id=f"kafka-{version}", marks=pytest.mark.needs(f"kafka-{version}"))
    for version in (KAFKA_4, KAFKA_3)
]
PLAIN = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "alice-secret"}
SESSION_MS = 2_000
"""How long the password of PLAIN is believed over TLS."""
_names = itertools.count()
_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Secured:
    server: Server
    folder: Path
    ports: dict[str, int]

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    @property
    def trust(self) -> dict[str, str]:
        return {"ssl_truststore_location": str(self.folder / "ca.pem")}

    @property
    def identity(self) -> dict[str, str]:
        return {"ssl_keystore_location": str(self.folder / "client.pem")}


@pytest.fixture(scope="module", params=CLUSTERS)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    broker, client = authority.issue_cert(HOST), authority.issue_cert("client@example.org")
    (folder / "client.pem").write_bytes(_key(client) + _chain(client))
    ports = {name: free_port() for name in ("INSIDE", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
    controller_port = free_port()
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    settings = {
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "INSIDE",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,"
        "CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": _one_line(_key(broker)),
        "ssl.keystore.certificate.chain": _one_line(_chain(broker)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": _one_line(authority.cert_pem.bytes()),
        "ssl.client.auth": "required",
        "listener.name.sasl_ssl.ssl.client.auth": "none",
        "listener.name.sasl_ssl.plain.connections.max.reauth.ms": str(SESSION_MS),
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        name = f"listener.name.{listener}"
        settings |= {
            f"{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{name}.plain.sasl.jaas.config": f'{_LOGIN}.plain.PlainLoginModule required user_alice="alice-secret";',
            f"{name}.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            f"{name}.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            f"{name}.oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
        }
    server = apache_kafka(folder / "kafka", version=request.param, settings=settings, heap="512m")
    # Whether it is up is asked where no identity is needed.
    server = Server(replace(server.launch, port=ports["INSIDE"]))
    with running(server):
        found = Secured(server, folder, ports)
        _add_scram_users(found)
        yield found


def _add_scram_users(secured: Secured) -> None:
    admin = AdminClient({"bootstrap.servers": secured.address("INSIDE")})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion("bob", ScramCredentialInfo(mechanism, 4096), b"bob=secret,1")
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(PATIENCE_S)


def _round_trip(secured: Secured, listener: str, **settings: Any) -> None:
    """Write, read, and look, each with a client of its own."""
    servers = {"bootstrap_servers": secured.address(listener), "security_protocol": listener, **settings}
    topic = f"topic-{next(_names)}"
    with blocking.Producer(**servers, transactional_id=topic) as producer, producer.transaction():
        producer.send(topic, b"value")
    with blocking.Consumer(**servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        assert [record.value for record in consumer.poll(PATIENCE_MS)] == [b"value"]
    with blocking.Admin(**servers) as admin:
        assert topic in admin.topics.list()


def test_tls_with_a_certificate_of_ones_own(secured: Secured) -> None:
    _round_trip(secured, "SSL", **secured.trust, **secured.identity)


def test_tls_with_certificates_as_text(secured: Secured) -> None:
    pem = (secured.folder / "client.pem").read_text()
    key, _, chain = pem.partition("-----END PRIVATE KEY-----\n")
    _round_trip(
        secured,
        "SSL",
        ssl_truststore_certificates=(secured.folder / "ca.pem").read_text(),
        ssl_keystore_key=key + "-----END PRIVATE KEY-----\n",
        ssl_keystore_certificate_chain=chain,
    )


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl_plain(secured: Secured, listener: str) -> None:
    _round_trip(secured, listener, **PLAIN, **(secured.trust if listener == "SASL_SSL" else {}))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl_scram(secured: Secured, mechanism: str) -> None:
    jaas = f'{_LOGIN}.scram.ScramLoginModule required username="bob" password="bob=secret,1";'
    _round_trip(secured, "SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=jaas, **secured.trust)


def test_a_client_goes_on_through_several_sessions(secured: Secured) -> None:
    """KIP-368: it proves again who it is before Kafka ends its connection, and no record is lost or repeated."""
    topic = f"topic-{next(_names)}"
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.address("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        **PLAIN,
        **secured.trust,
    }
    sent: list[bytes] = []
    until = time.monotonic() + 3 * SESSION_MS / 1000
    with blocking.Producer(**settings) as producer:
        while time.monotonic() < until:
            futures = [producer.send(topic, str(len(sent) + at).encode()) for at in range(10)]
            sent += [str(len(sent) + at).encode() for at in range(10)]
            for future in futures:
                future.result()
        connections = producer.metrics()["connection-creation-total"]
    print(f"{connections:.0f} connections in three sessions")
    read: list[bytes | None] = []
    with blocking.Consumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        while len(read) < len(sent):
            read += [record.value for record in consumer.poll(PATIENCE_MS)]
    assert read == sent


def test_sasl_oauthbearer(secured: Secured) -> None:
    _round_trip(
        secured, "SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_provider=_unsecured_token
    )


def test_sasl_oauthbearer_with_a_token_endpoint(secured: Secured, tmp_path: Path) -> None:
    with authorization_server(tmp_path) as server:
        server.token = _unsecured_token
        _round_trip(secured, "SASL_PLAINTEXT", **server.client_settings())
        assert len(server.asked) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_said_at_once(secured: Secured, mechanism: str) -> None:
    with (
        pytest.raises(AuthorizationFailed, match="SASL_AUTHENTICATION_FAILED"),
        blocking.Producer(
            bootstrap_servers=secured.address("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_username="alice" if mechanism == "PLAIN" else "bob",
            sasl_password="wrong",
            transactional_id="refused",
        ),
    ):
        pass


def test_a_broker_whose_certificate_nobody_vouches_for_is_not_talked_to(secured: Secured, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with (
        pytest.raises(AuthorizationFailed, match=r"ssl\.truststore"),
        blocking.Producer(
            bootstrap_servers=secured.address("SASL_SSL"),
            security_protocol="SASL_SSL",
            ssl_truststore_location=str(tmp_path / "other.pem"),
            **PLAIN,
            transactional_id="refused",
        ),
    ):
        pass


def _unsecured_token() -> str:
    now = time.time()
    header, claims = {"alg": "none"}, {"sub": "carol", "iat": now, "exp": now + 600}
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return ".".join((*encoded, ""))


def _key(certificate: trustme.LeafCert) -> bytes:
    """As PKCS#8, which is all that Java reads."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _chain(certificate: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in certificate.cert_chain_pems)


def _one_line(pem: bytes) -> str:
    """For a properties file, where a line break must be escaped."""
    return pem.decode().replace("\n", "\\n")
