"""The settings of SASL: the mechanisms for authentication, and how long an authentication is valid.

A setting with the prefix ``listener.name.<listener>.`` holds for one listener only. A setting that begins with a
mechanism (``plain.sasl.jaas.config``) holds for that mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.settings import AtLeast, ListOf, OneOf, SettingType, declare

BOOLEAN, INT, LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG
STRING, LIST, PASSWORD = SettingType.STRING, SettingType.LIST, SettingType.PASSWORD

SERVED_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_LOGIN: Final = (
    "The user and password that this broker has for other brokers, for {}: ``... username=... password=...;``."
)


@dataclass(frozen=True)
class SaslConfig:
    """A part of ``BrokerConfig``."""

    sasl_enabled_mechanisms: tuple[str, ...] = declare(
        "sasl.enabled.mechanisms",
        LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "With which mechanisms clients may prove who they are. Kafka has GSSAPI.",
        rule=ListOf(SERVED_MECHANISMS),
    )
    sasl_plain_without_tls: bool = declare(
        "sasl.plain.without.tls",
        BOOLEAN,
        False,
        "Whether PLAIN is served on a SASL_PLAINTEXT listener, where everybody on the way can read the passwords. "
        "Semel's own.",
    )
    connections_max_reauth_ms: int = declare(
        "connections.max.reauth.ms",
        LONG,
        0,
        "After this time a client must prove again who it is, on the same connection (KIP-368), or the connection is "
        "closed with its next request. 0: never.",
        rule=AtLeast(0),
    )
    connection_failed_authentication_delay_ms: int = declare(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long a client whose proof failed waits for that answer, after which its connection is closed.",
        rule=AtLeast(0),
    )
    sasl_server_max_receive_size: int = declare(
        "sasl.server.max.receive.size",
        INT,
        65_536,
        "The largest request of a client that has not proven yet who it is. Kafka has 524288.",
        rule=AtLeast(1024),
    )
    sasl_mechanism_inter_broker_protocol: str = declare(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "SCRAM-SHA-512",
        "With which mechanism this broker proves to others who it is, where their listener wants SASL. User and "
        "password are in the sasl.jaas.config of that mechanism. Kafka has GSSAPI.",
        rule=OneOf(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    )
    plain_sasl_jaas_config: str | None = declare(
        "plain.sasl.jaas.config",
        PASSWORD,
        None,
        'Users for PLAIN, besides those of the cluster: ``... user_alice="secret" user_bob="secret";``. And '
        "username= and password= of this broker for other brokers.",
    )
    scram_sha_256_sasl_jaas_config: str | None = declare(
        "scram-sha-256.sasl.jaas.config", PASSWORD, None, _LOGIN.format("SCRAM-SHA-256")
    )
    scram_sha_512_sasl_jaas_config: str | None = declare(
        "scram-sha-512.sasl.jaas.config", PASSWORD, None, _LOGIN.format("SCRAM-SHA-512")
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = declare(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys are that tokens are signed with: https://..., or file:///... OAUTHBEARER needs it.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = declare(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        "After this time the keys are fetched again.",
        rule=AtLeast(1000),
    )
    sasl_oauthbearer_expected_issuer: str | None = declare(
        "sasl.oauthbearer.expected.issuer", STRING, None, "Who must have issued a token. Not set: anybody with a key."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = declare(
        "sasl.oauthbearer.expected.audience",
        LIST,
        None,
        "For whom a token must be, one of these. Not set: for anybody.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = declare(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "By how much the clocks of this broker and of an issuer may differ.",
        rule=AtLeast(0),
    )
    sasl_oauthbearer_sub_claim_name: str = declare(
        "sasl.oauthbearer.sub.claim.name", STRING, "sub", "Where a token says which user it is of."
    )
    sasl_oauthbearer_scope_claim_name: str = declare(
        "sasl.oauthbearer.scope.claim.name", STRING, "scope", "Where a token says what it is for."
    )
