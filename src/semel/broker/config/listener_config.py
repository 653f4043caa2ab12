"""The settings of listeners: where clients and brokers connect, and with which certificates.

``broker.security.listeners`` turns them into values and checks that they fit together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.settings import ListOf, OneOf, SettingType, declare

STRING, LIST, PASSWORD = SettingType.STRING, SettingType.LIST, SettingType.PASSWORD

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

_LISTENER: Final = re.compile(r"(?P<name>[\w.-]+)://(?:\[(?P<v6>[\w:.%]*)\]|(?P<host>[\w.%-]*)):(?P<port>[0-9]{1,5})")
_FOR_ONE: Final = re.compile(
    r"listener\.name\.(?P<listener>[^.]+)\."
    r"(?P<setting>ssl\..+|(?:[^.]+\.)?sasl\..+|max\.connections|max\.connection\.creation\.rate|"
    r"connections\.max\.reauth\.ms)"
)


class NamedAddress(NamedTuple):
    """An address ``NAME://HOST:PORT`` with the name of its listener, in capitals as in Kafka."""

    name: str
    host: str
    port: int


def parse_listener(text: str) -> NamedAddress | None:
    """Return the parts of ``NAME://HOST:PORT``, or ``None`` for any other text. An IPv6 host is in brackets."""
    match = _LISTENER.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        return None
    return NamedAddress(match["name"].upper(), match["v6"] or match["host"] or "", int(match["port"]))


def of_one_listener(setting: str) -> tuple[str, str] | None:
    """Return listener and setting of ``listener.name.<listener>.<setting>``, or ``None`` for any other name."""
    match = _FOR_ONE.fullmatch(setting)
    return None if match is None else (match["listener"], match["setting"])


@dataclass(frozen=True, slots=True)
class _Listeners:
    def allows(self, texts: tuple[str, ...]) -> bool:
        return bool(texts) and all(parse_listener(text) is not None for text in texts)

    def __str__(self) -> str:
        return "NAME://HOST:PORT[,NAME://HOST:PORT...]"


@dataclass(frozen=True, slots=True)
class _ProtocolMap:
    def allows(self, texts: tuple[str, ...]) -> bool:
        pairs = [text.partition(":") for text in texts]
        return bool(pairs) and all(name and protocol in SECURITY_PROTOCOLS for name, _, protocol in pairs)

    def __str__(self) -> str:
        return f"NAME:PROTOCOL[,NAME:PROTOCOL...], each protocol one of {', '.join(SECURITY_PROTOCOLS)}"


@dataclass(frozen=True, slots=True)
class _MappingRules:
    def allows(self, text: str) -> bool:
        from semel.security.principal_mapping import PrincipalMapping

        try:
            PrincipalMapping(text)
        except ValueError:
            return False
        return True

    def __str__(self) -> str:
        return "DEFAULT or RULE:pattern/replacement/[LU], with commas between several"


@dataclass(frozen=True)
class ListenerConfig:
    """A part of ``BrokerConfig``."""

    listeners: tuple[str, ...] | None = declare(
        "listeners",
        LIST,
        None,
        "Where to listen, under which names: NAME://HOST:PORT,... With an empty host on all addresses, with port 0 on "
        "one that is free. Not set: --listen of the command line, as the listener PLAINTEXT. Kafka has "
        "PLAINTEXT://:9092.",
        rule=_Listeners(),
    )
    advertised_listeners: tuple[str, ...] | None = declare(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that clients of each listener are told to use, in the same form; port 0 is the port that is "
        "listened on. Not set: those of listeners, with the name of this machine for an empty host.",
        rule=_Listeners(),
    )
    listener_security_protocol_map: tuple[str, ...] = declare(
        "listener.security.protocol.map",
        LIST,
        tuple(f"{protocol}:{protocol}" for protocol in SECURITY_PROTOCOLS),
        "The protocol of each listener, by its name.",
        rule=_ProtocolMap(),
    )
    inter_broker_listener_name: str | None = declare(
        "inter.broker.listener.name",
        STRING,
        None,
        "The listener of the other brokers, with zookeeper.connect; clients are not served there. Not set, the brokers "
        "have a plain one besides (--inter-broker-listen), and no listener may want TLS or SASL.",
    )
    security_inter_broker_protocol: str | None = declare(
        "security.inter.broker.protocol",
        STRING,
        None,
        "The same for a listener that has the name of its protocol. Kafka has PLAINTEXT.",
        rule=OneOf(SECURITY_PROTOCOLS),
    )
    ssl_keystore_type: str = declare(
        "ssl.keystore.type",
        STRING,
        "PEM",
        "The format of the broker's certificate and key. Kafka has JKS, Java's.",
        rule=OneOf(("PEM",)),
    )
    ssl_keystore_location: str | None = declare(
        "ssl.keystore.location",
        STRING,
        None,
        "A file with the broker's private key and certificate chain. When it changes, new connections get the new "
        "certificate.",
    )
    ssl_keystore_certificate_chain: str | None = declare(
        "ssl.keystore.certificate.chain", PASSWORD, None, "The broker's certificate chain itself."
    )
    ssl_keystore_key: str | None = declare("ssl.keystore.key", PASSWORD, None, "The broker's private key itself.")
    ssl_key_password: str | None = declare(
        "ssl.key.password", PASSWORD, None, "What the broker's private key is encrypted with."
    )
    ssl_truststore_type: str = declare(
        "ssl.truststore.type",
        STRING,
        "PEM",
        "The format of what is trusted. Kafka has JKS, Java's.",
        rule=OneOf(("PEM",)),
    )
    ssl_truststore_location: str | None = declare(
        "ssl.truststore.location",
        STRING,
        None,
        "A file of certificates: those who signed the certificates of clients and of other brokers. Read again when "
        "it changes.",
    )
    ssl_truststore_certificates: str | None = declare(
        "ssl.truststore.certificates", PASSWORD, None, "The trusted certificates themselves."
    )
    ssl_client_auth: str = declare(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients show a certificate: none, requested or required. On a SASL_SSL listener it counts only with "
        "the prefix of that listener, as in Kafka.",
        rule=OneOf(("none", "requested", "required")),
    )
    ssl_principal_mapping_rules: str = declare(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "How the subject of a client's certificate becomes a user. DEFAULT is the subject as it is.",
        rule=_MappingRules(),
    )
    ssl_enabled_protocols: tuple[str, ...] = declare(
        "ssl.enabled.protocols",
        LIST,
        TLS_VERSIONS,
        "The versions of TLS that are spoken. Kafka 4 has the same two.",
        rule=ListOf(TLS_VERSIONS),
    )
    ssl_cipher_suites: tuple[str, ...] = declare(
        "ssl.cipher.suites",
        LIST,
        (),
        "The cipher suites that are spoken, by their standard names; empty, those of OpenSSL. Of TLS 1.3 either all "
        "suites are named or none, and then TLS 1.3 is not spoken.",
    )
    ssl_endpoint_identification_algorithm: str = declare(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "Whether the certificate of another broker must name its host: https, or empty for no.",
        rule=OneOf(("https", "")),
    )
