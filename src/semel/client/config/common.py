"""The settings that all clients share: the brokers' addresses, timeouts, backoffs and security.

A setting has Kafka's name, with underscores where it is a keyword: ``Producer(bootstrap_servers=..., linger_ms=20)``. A
value may be a Python value or text; both are checked by the setting's declaration, and the error for a wrong value
names the setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from semel.client.machine.connection.outages import Outages
from semel.client.security.config import SECURITY_SETTINGS, SecurityConfig
from semel.settings import AtLeast, SettingError, Settings, SettingType, declare, declared_in
from semel.types import Address

BOOLEAN, INT, LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG
STRING, LIST = SettingType.STRING, SettingType.LIST

MINUTE_MS: Final = 60_000

# Kafka's client settings that do not exist here, and why.
ABSENT: Final = {
    "sasl.": "PLAIN, SCRAM and OAUTHBEARER are spoken; see docs/client.md for their settings",
    "ssl.": "certificates and keys are PEM; see docs/client.md for their settings",
    "key.": "keys are bytes, or what key_serializer= or key_deserializer=, a function, is for",
    "value.": "values are bytes, or what value_serializer= or value_deserializer=, a function, is for",
    "interceptor.classes": "pass on_send= and on_acknowledgement=, which are functions",
    "metric.reporters": "there are no reporters of metrics",
    "metrics.": "there are no reporters of metrics",
    "enable.metrics.push": "metrics are not pushed to the broker",
    "client.dns.lookup": "every address that a name has is tried, as the system gives them",
    "receive.buffer.bytes": "the system chooses the sizes of its buffers",
    "send.buffer.bytes": "the system chooses the sizes of its buffers",
}

T = TypeVar("T")


def addresses(servers: Sequence[str]) -> tuple[Address, ...]:
    """Return the addresses of brokers, each given as ``host:port``. Raises ``SettingError``."""
    return tuple(_address(server.strip()) for server in servers if server.strip())


def _address(server: str) -> Address:
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise SettingError("bootstrap.servers", f"bootstrap.servers has {server!r}; an address is host:port")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings that all clients share."""

    bootstrap_servers: tuple[Address, ...] = declare(
        "bootstrap.servers",
        LIST,
        (),
        "Brokers to ask for the others: host:port, one or more.",
        read=addresses,
    )
    client_id: str = declare(
        "client.id", STRING, "semel", "The name of this client in the broker's log lines, and in quotas."
    )
    request_timeout_ms: int = declare(
        "request.timeout.ms",
        INT,
        30_000,
        "How long a request may go unanswered. Then its connection is closed and the request is sent again.",
        rule=AtLeast(1),
    )
    retry_backoff_ms: int = declare(
        "retry.backoff.ms",
        LONG,
        100,
        "The pause before a failed request is retried; it doubles with every failure.",
        rule=AtLeast(0),
    )
    retry_backoff_max_ms: int = declare(
        "retry.backoff.max.ms", LONG, 1_000, "The longest pause before a failed request is retried.", rule=AtLeast(0)
    )
    reconnect_backoff_ms: int = declare(
        "reconnect.backoff.ms",
        LONG,
        50,
        "The pause before a broker is connected to again; it doubles with every failure.",
        rule=AtLeast(0),
    )
    reconnect_backoff_max_ms: int = declare(
        "reconnect.backoff.max.ms",
        LONG,
        1_000,
        "The longest pause before a broker is connected to again.",
        rule=AtLeast(0),
    )
    socket_connection_setup_timeout_ms: int = declare(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        "How long connecting may take; it doubles with every failure.",
        rule=AtLeast(1),
    )
    socket_connection_setup_timeout_max_ms: int = declare(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "The longest time that connecting may take.",
        rule=AtLeast(1),
    )
    connections_max_idle_ms: int = declare(
        "connections.max.idle.ms", LONG, 9 * MINUTE_MS, "After this time without a request a connection is closed."
    )
    metadata_max_age_ms: int = declare(
        "metadata.max.age.ms",
        LONG,
        5 * MINUTE_MS,
        "After this time the client asks for new metadata, even if nothing seems to have changed.",
        rule=AtLeast(0),
    )
    metadata_recovery_rebootstrap_trigger_ms: int = declare(
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        5 * MINUTE_MS,
        "When no known broker has answered for this long, bootstrap.servers are asked as at the beginning.",
        rule=AtLeast(0),
    )

    security: SecurityConfig = field(default_factory=SecurityConfig)
    outages: Outages = field(default_factory=Outages, repr=False, compare=False)
    """The outages that this client logs. It has its own, unless several clients share one."""

    def require_bootstrap_servers(self) -> None:
        if not self.bootstrap_servers:
            raise SettingError("bootstrap.servers", "bootstrap.servers is missing: name one broker at least, host:port")


CLIENT_SETTINGS: Final = (*declared_in(ClientConfig), *SECURITY_SETTINGS)

# Settings that are objects, not text.
_OF_SECURITY: Final = ("sasl_oauthbearer_token_provider",)
_OF_CLIENT: Final = ("outages",)
OBJECTS: Final = (*_OF_SECURITY, *_OF_CLIENT)


def read_keywords(settings: Settings, keywords: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of keywords by attribute name, for the dataclasses that declare them. ``None``: not set."""
    texts: dict[str, str] = {}
    objects = {keyword: keywords[keyword] for keyword in OBJECTS if keyword in keywords}
    for keyword, value in keywords.items():
        if keyword in objects:
            continue
        setting = settings.lookup(keyword.replace("_", "."))
        if value is not None:
            texts[setting.name] = as_text(value)
    return {**settings.attributes(texts), **objects}


def split(attributes: Mapping[str, Any]) -> tuple[ClientConfig, dict[str, Any]]:
    """Return the settings that all clients share, and the attributes that are left."""
    secure = {*(setting.attribute for setting in SECURITY_SETTINGS), *_OF_SECURITY}
    shared = {*(setting.attribute for setting in CLIENT_SETTINGS), *_OF_CLIENT} - secure
    client = ClientConfig(
        security=SecurityConfig(**{name: value for name, value in attributes.items() if name in secure}),
        **{name: value for name, value in attributes.items() if name in shared},
    )
    client.require_bootstrap_servers()
    return client, {name: value for name, value in attributes.items() if name not in shared | secure}


def as_text(value: object) -> str:
    """Return a value as Kafka writes it: true and false in small letters, lists with commas."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
