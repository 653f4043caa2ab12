"""A broker with several listeners: each tells its clients its own addresses, and all share the limits."""

from __future__ import annotations

import contextlib

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.describe_cluster import DescribeClusterRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.raw_client import RawClient, batch, values

TWO = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,PROXIED://127.0.0.1:0",
    "listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,PROXIED:PLAINTEXT",
    "advertised_listeners": "PROXIED://kafka.example.org:1234",
}


def port_of(broker: Broker, listener: str) -> int:
    return int(broker.addresses[listener].rpartition(":")[2])


def told(client: RawClient) -> set[tuple[str, int]]:
    """The addresses that this client is told, by all requests that tell some."""
    metadata = client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    cluster = client.call(ApiKey.DESCRIBE_CLUSTER, 0, DescribeClusterRequest())
    old = client.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g"))
    new = client.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    assert old.error_code == new.coordinators[0].error_code == 0
    return {(each.host, each.port) for each in (*metadata.brokers, *cluster.brokers, old, *new.coordinators)}


def test_each_client_is_told_the_addresses_of_the_listener_that_it_came_by() -> None:
    with Broker(**TWO) as broker:
        for name in ("INSIDE", "OUTSIDE", "PROXIED", "INSIDE"):
            port = port_of(broker, name)
            expected = ("kafka.example.org", 1234) if name == "PROXIED" else ("127.0.0.1", port)
            with RawClient(port) as client:
                assert told(client) == {expected}
                assert told(client) == {expected}, "also from the cache"


def test_a_restart_listens_on_the_same_ports_and_serves_the_same_records() -> None:
    with Broker(**TWO) as broker:
        ports = broker.addresses
        with RawClient(port_of(broker, "INSIDE")) as client:
            client.create_topic("t")
            client.produce("t", batch(b"x"))
        broker.restart(kill=True)
        assert broker.addresses == ports
        with RawClient(port_of(broker, "OUTSIDE")) as client:
            assert values(client.fetch("t", 0)) == [(0, b"x")]


def test_the_limit_of_connections_is_one_for_all_listeners() -> None:
    with Broker(**TWO, max_connections=2) as broker, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(port_of(broker, name))) for name in ("INSIDE", "OUTSIDE")]
        for client in clients:
            assert client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers
        assert stack.enter_context(RawClient(port_of(broker, "PROXIED"))).is_closed_by_broker()


def test_one_listener_can_have_a_limit_of_its_own_and_a_new_one_while_it_runs() -> None:
    own = "listener.name.outside.max.connections"
    with Broker(**TWO, **{own: 1}) as broker, contextlib.ExitStack() as stack:
        inside = stack.enter_context(RawClient(port_of(broker, "INSIDE")))
        stack.enter_context(RawClient(port_of(broker, "OUTSIDE"))).call(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
        assert stack.enter_context(RawClient(port_of(broker, "OUTSIDE"))).is_closed_by_broker()
        altered = AlterConfigsResource(4, "", [AlterableConfig(own, 0, "2")])
        answer = inside.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[altered]))
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        third = stack.enter_context(RawClient(port_of(broker, "OUTSIDE")))
        assert third.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers


def test_a_flood_of_connections_on_one_listener_does_not_keep_others_out() -> None:
    with Broker(**TWO, **{"listener.name.outside.max.connection.creation.rate": 1}) as broker:
        flood = [RawClient(port_of(broker, "OUTSIDE")) for _ in range(100)]
        # Of one address five are served at once and one in two seconds, of which two may wait.
        assert flood[-1].is_closed_by_broker()
        with RawClient(port_of(broker, "INSIDE")) as client:
            assert client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers
        for one in flood:
            one.socket.close()


def test_a_setting_of_tls_cannot_be_altered_by_a_client() -> None:
    with Broker(**TWO) as broker, RawClient(port_of(broker, "INSIDE")) as client:
        for name in ("ssl.keystore.location", "listener.name.inside.ssl.truststore.location"):
            altered = AlterConfigsResource(4, "", [AlterableConfig(name, 0, "/etc/passwd")])
            message = IncrementalAlterConfigsRequest(resources=[altered])
            (answer,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, message).responses
            assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("kill", [True, False])
def test_a_broker_that_ends_closes_all_its_listeners(kill: bool) -> None:
    with Broker(**TWO) as broker:
        ports = [port_of(broker, name) for name in broker.addresses]
        broker.stop(kill=kill)
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                RawClient(port)


def test_an_address_of_ipv6_is_listened_on_and_told() -> None:
    with Broker(listeners="PLAINTEXT://[::1]:0") as broker, RawClient(broker.port, host="::1") as client:
        assert broker.bootstrap_servers == f"[::1]:{broker.port}"
        assert told(client) == {("::1", broker.port)}
