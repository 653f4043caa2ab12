"""Brokers reach each other over TLS with certificates on both sides, and with SASL."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator

import pytest
import trustme

from semel import blocking
from semel.settings import SettingError
from semel.testing import Cluster, certificate
from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.fetch import FetchRequest
from tests.broker.raw_client import RawClient
from tools.patience import wait_until

MUTUAL = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:SSL",
    "inter_broker_listener_name": "INSIDE",
    "ssl_client_auth": "required",
    "ssl_keystore_certificate_chain": certificate.CERTIFICATE,
    "ssl_keystore_key": certificate.PRIVATE_KEY,
    "ssl_truststore_certificates": certificate.AUTHORITY,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, **MUTUAL) as running:
        yield running


def inter_broker_port(cluster: Cluster, node_id: int = 1) -> int:
    broker = cluster.brokers[node_id].served.broker
    assert broker is not None
    assert broker.endpoints.inter_broker_address is not None
    return broker.endpoints.inter_broker_address.port


def replicate(cluster: Cluster, topic: str) -> None:
    """Thirty records in five transactions, on three replicas."""
    with blocking.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.topics.create(topic, partitions=6, replication_factor=3)
    with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="x") as producer:
        for number in range(5):
            with producer.transaction():
                for partition in range(6):
                    producer.send(topic, b"%d" % number, partition=partition)
    assert len(cluster.committed(topic)) == 30


def principals(cluster: Cluster) -> set[str]:
    """Of the connections between brokers."""
    found = set()
    for broker in cluster.brokers.values():
        real = broker.served.broker
        assert real is not None
        assert real._running is not None
        server = real._running.inter_broker_server
        assert server is not None
        found |= {connection.principal for connection in list(server.connections)}
    return found


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate.AUTHORITY)


def test_records_are_replicated_and_transactions_committed_over_tls(cluster: Cluster) -> None:
    replicate(cluster, "t")
    cluster.brokers[3].restart(kill=True)
    with (
        blocking.Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="x") as producer,
        producer.transaction(),
    ):
        producer.send("t", b"after", partition=0)
    assert len(cluster.committed("t")) == 31


def test_each_broker_is_known_to_the_others_by_its_certificate(cluster: Cluster) -> None:
    wait_until(
        lambda: principals(cluster) == {"User:CN=localhost"}, "followers copy under the name of their certificate"
    )


def test_clients_are_not_served_where_brokers_are_and_not_without_a_certificate(cluster: Cluster) -> None:
    port = inter_broker_port(cluster)
    with RawClient(port) as plain:
        plain.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
        assert plain.is_closed_by_broker()
    context = trusting()
    with pytest.raises((ssl.SSLError, ConnectionError)), RawClient(port, tls=context) as stranger:
        stranger.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_records_are_replicated_between_brokers_that_prove_who_they_are_with_a_password(protocol: str) -> None:
    settings = {
        **MUTUAL,
        "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,INSIDE:{protocol}",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.plain.without.tls": True,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.inside.plain.sasl.jaas.config": 'x username="broker" password="secret" user_broker="secret";',
    }
    with Cluster(brokers=3, **settings) as cluster:
        replicate(cluster, "t")
        assert principals(cluster) == {"User:broker"}
        with RawClient(inter_broker_port(cluster), tls=trusting() if protocol == "SASL_SSL" else None) as stranger:
            stranger.send(ApiKey.FETCH, 11, FetchRequest(replica_id=2))
            assert stranger.is_closed_by_broker()


def test_brokers_go_on_through_sessions_that_end() -> None:
    """KIP-368 between brokers: they prove again who they are, and no record is lost or repeated."""
    settings = {
        **MUTUAL,
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.plain.without.tls": True,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.inside.plain.sasl.jaas.config": 'x username="broker" password="secret" user_broker="secret";',
        "listener.name.inside.connections.max.reauth.ms": 1_500,
    }

    def proofs(cluster: Cluster) -> int:
        running = [broker.served.broker for broker in cluster.brokers.values()]
        return sum(broker.metrics.requests("SaslHandshake").count for broker in running if broker is not None)

    with Cluster(brokers=2, **settings) as cluster:
        with blocking.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.topics.create("t", partitions=2, replication_factor=2)
        sent: list[bytes] = []
        with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="x") as producer:
            before = None
            while before is None or proofs(cluster) < before + 8:
                with producer.transaction():
                    for partition in range(2):
                        producer.send("t", b"%d" % len(sent), partition=partition)
                sent.append(b"%d" % len(sent))
                before = proofs(cluster) if before is None else before
        for partition in range(2):
            assert [record.value for record in cluster.committed("t", partition)] == sent


def test_brokers_whose_password_is_wrong_copy_nothing(caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        **MUTUAL,
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "plain.sasl.jaas.config": 'x username="broker" password="wrong-one" user_broker="secret";',
        "connection.failed.authentication.delay.ms": 0,
    }
    with caplog.at_level(logging.INFO, "semel.broker"), Cluster(brokers=2, **settings) as cluster:
        with blocking.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.topics.create("t", partitions=2, replication_factor=2)
        wait_until(lambda: any("refused, PLAIN" in line for line in caplog.messages), "a login is refused")
    assert not any("wrong-one" in line for line in caplog.messages)


def test_a_broker_needs_a_password_for_the_others() -> None:
    settings = {
        **MUTUAL,
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    with pytest.raises(SettingError, match=r"plain.sasl.jaas.config needs username=\.\.\. and password="):
        Cluster(brokers=1, **settings).start()


def test_a_broker_with_a_certificate_of_others_is_not_let_in() -> None:
    """It does not trust the others, and they do not trust it: no partition of theirs is copied to it."""
    with Cluster(brokers=2, **MUTUAL) as cluster:
        leaf = trustme.CA().issue_cert("localhost")
        context = trusting()
        leaf.configure_cert(context)
        with pytest.raises((ssl.SSLError, ConnectionError)), RawClient(inter_broker_port(cluster), tls=context) as one:
            one.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
