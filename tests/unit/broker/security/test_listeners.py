"""The listeners that the settings ask for: who listens where, and which settings cannot be meant together."""

from __future__ import annotations

import socket

import pytest

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.endpoints import check_listeners
from semel.broker.security.listeners import Listener, Listeners, configured_listeners
from semel.broker.security.listening import advertised_endpoint
from semel.metadata.image import Endpoint
from semel.security.security_protocol import SecurityProtocol
from semel.settings import SettingError
from semel.types import Address

ZOOKEEPER = "zookeeper.connect=z:2181\n"


def listeners(text: str) -> Listeners:
    return configured_listeners(BrokerConfig.load(text))


def test_a_listener_has_the_protocol_of_its_name_and_advertises_where_it_listens() -> None:
    (plain, tls) = listeners("listeners=PLAINTEXT://:9092,ssl://[::1]:9093").clients
    assert plain == Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "", 9092, Endpoint("", 9092))
    assert tls == Listener("SSL", SecurityProtocol.SSL, "::1", 9093, Endpoint("::1", 9093))
    assert str(tls) == "SSL://[::1]:9093"


def test_names_are_free_where_the_map_gives_them_a_protocol() -> None:
    found = listeners(
        "listeners=INSIDE://127.0.0.1:0,OUTSIDE://0.0.0.0:0\n"
        "advertised.listeners=OUTSIDE://kafka.example.org:9094\n"
        "listener.security.protocol.map=inside:PLAINTEXT,OUTSIDE:SASL_SSL"
    )
    assert found == Listeners(
        (
            Listener("INSIDE", SecurityProtocol.PLAINTEXT, "127.0.0.1", 0, Endpoint("127.0.0.1", 0)),
            Listener("OUTSIDE", SecurityProtocol.SASL_SSL, "0.0.0.0", 0, Endpoint("kafka.example.org", 9094)),
        ),
        None,
    )


@pytest.mark.parametrize("setting", ["inter.broker.listener.name=SSL", "security.inter.broker.protocol=SSL"])
def test_in_a_cluster_the_listener_of_brokers_serves_no_clients(setting: str) -> None:
    text = f"listeners=SASL_SSL://h:1,SSL://h:2\n{setting}\n"
    found = listeners(ZOOKEEPER + text)
    assert ([one.name for one in found.clients], found.brokers and found.brokers.name) == (["SASL_SSL"], "SSL")
    alone = listeners(text)
    assert ([one.name for one in alone.clients], alone.brokers) == (["SASL_SSL", "SSL"], None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listeners=SSL://a:1,ssl://b:2", "listeners has SSL twice"),
        ("listeners=SSL://a:1,PLAINTEXT://a:1", "SSL and PLAINTEXT on one port, 1"),
        ("listeners=A://a:1", "listeners has A, and listener.security.protocol.map says no protocol for it"),
        (
            "listeners=SSL://a:1,PLAINTEXT://a:2\nlistener.security.protocol.map=SSL:SSL",
            "listeners has PLAINTEXT, and listener.security.protocol.map says no protocol for it; it has SSL",
        ),
        ("listeners=SSL://0.0.0.0:1", "SSL://0.0.0.0:1 is not an address that clients can reach"),
        (
            "listeners=SSL://a:1\nadvertised.listeners=SSL://[::]:1",
            "SSL://[::]:1 is not an address that clients can reach",
        ),
        ("listeners=SSL://a:1\nadvertised.listeners=PLAINTEXT://a:1", "advertised.listeners has PLAINTEXT"),
        ("listeners=SSL://a:1\ninter.broker.listener.name=B", "inter.broker.listener.name is B, and listeners has"),
        (
            "listeners=SSL://a:1\ninter.broker.listener.name=SSL\nsecurity.inter.broker.protocol=SSL",
            "say the same thing: set only one",
        ),
        (ZOOKEEPER + "listeners=SSL://a:1", "would reach each other where no proof is asked"),
        (ZOOKEEPER + "listeners=SSL://a:1\ninter.broker.listener.name=SSL", "add one for clients"),
        (
            "listeners=SSL://a:1\nlistener.name.other.ssl.client.auth=none",
            "listener.name.other.ssl.client.auth is for a listener that listeners has not",
        ),
    ],
)
def test_settings_that_cannot_be_meant_together_are_refused_with_their_values(text: str, said: str) -> None:
    with pytest.raises(SettingError) as refused:
        listeners(text)
    assert said in str(refused.value)


def test_plain_listeners_of_a_cluster_need_no_listener_of_their_own_for_brokers() -> None:
    assert listeners(ZOOKEEPER + "listeners=PLAINTEXT://a:1").brokers is None


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("listeners=SSL://a:1", {"listen": Address("a", 1)}, "and so are --listen or --advertise"),
        ("listeners=SSL://a:1", {"advertise": Address("a", 1)}, "and so are --listen or --advertise"),
        (
            ZOOKEEPER + "listeners=SSL://a:1,PLAINTEXT://a:2\ninter.broker.listener.name=SSL",
            {"inter_broker_listen": Address("a", 3)},
            "SSL://a:1 by inter.broker.listener.name, and at a:3 by --inter-broker-listen",
        ),
        ("advertised.listeners=SSL://a:1", {"listen": Address("a", 1)}, "and listeners is not: set both"),
    ],
)
def test_the_command_line_and_the_settings_must_not_contradict(
    text: str, arguments: dict[str, Address], said: str
) -> None:
    given = {"listen": None, "advertise": None, "inter_broker_listen": None, **arguments}
    with pytest.raises(SettingError) as refused:
        check_listeners(BrokerConfig.load(text), **given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("listeners=PLAINTEXT://:0", (socket.getfqdn(), 1234)),
        ("listeners=PLAINTEXT://h:0", ("h", 1234)),
        (
            "listeners=PLAINTEXT://h:0\nadvertised.listeners=PLAINTEXT://kafka.example.org:9094",
            ("kafka.example.org", 9094),
        ),
        (
            "listeners=PLAINTEXT://h:0\nadvertised.listeners=PLAINTEXT://kafka.example.org:0",
            ("kafka.example.org", 1234),
        ),
    ],
)
def test_what_is_told_is_an_address_that_can_be_connected_to(text: str, told: tuple[str, int]) -> None:
    (listener,) = listeners(text).clients
    assert advertised_endpoint(listener, 1234) == told
