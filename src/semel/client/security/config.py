"""The settings of TLS and SASL, under Kafka's names.

Certificates and keys are PEM, in files or as text; Java's keystores (JKS, PKCS12) are not read. User and password come
from ``sasl.jaas.config``, as in Java, or from ``sasl.username`` and ``sasl.password``, as in librdkafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.settings import OneOf, SettingError, SettingType, declare, declared_in

STRING, PASSWORD = SettingType.STRING, SettingType.PASSWORD


class SecurityProtocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_PROTOCOLS: Final = tuple(protocol.value for protocol in SecurityProtocol)
_PEM: Final = "PEM"


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    security_protocol: SecurityProtocol = declare(  # noqa: RUF009 (it makes a field)
        "security.protocol",
        STRING,
        "PLAINTEXT",
        "How brokers are talked to.",
        rule=OneOf(_PROTOCOLS),
        read=SecurityProtocol,
    )
    sasl_mechanism: str | None = declare(
        "sasl.mechanism", STRING, None, "How this client proves who it is.", rule=OneOf(MECHANISMS)
    )
    sasl_jaas_config: str | None = declare(
        "sasl.jaas.config", PASSWORD, None, 'User and password as Java has them: ``... username="u" password="p";``.'
    )
    sasl_username: str | None = declare("sasl.username", STRING, None, "The user, for PLAIN and SCRAM.")
    sasl_password: str | None = declare("sasl.password", PASSWORD, None, "The user's password, for PLAIN and SCRAM.")
    ssl_truststore_type: str = declare(
        "ssl.truststore.type", STRING, _PEM, "The format of what is trusted.", rule=OneOf((_PEM,))
    )
    ssl_truststore_location: str | None = declare(
        "ssl.truststore.location", STRING, None, "A file of trusted certificates; unset, the system's are trusted."
    )
    ssl_truststore_certificates: str | None = declare(
        "ssl.truststore.certificates", PASSWORD, None, "The trusted certificates themselves."
    )
    ssl_keystore_type: str = declare(
        "ssl.keystore.type", STRING, _PEM, "The format of the client's own certificate and key.", rule=OneOf((_PEM,))
    )
    ssl_keystore_location: str | None = declare(
        "ssl.keystore.location", STRING, None, "A file with the client's private key and certificate chain."
    )
    ssl_keystore_certificate_chain: str | None = declare(
        "ssl.keystore.certificate.chain", PASSWORD, None, "The client's certificate chain itself."
    )
    ssl_keystore_key: str | None = declare("ssl.keystore.key", PASSWORD, None, "The client's private key itself.")
    ssl_key_password: str | None = declare(
        "ssl.key.password", PASSWORD, None, "What the client's private key is encrypted with."
    )
    ssl_endpoint_identification_algorithm: str = declare(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "Whether a broker's certificate must name its host: https, or empty for no.",
        rule=OneOf(("https", "")),
    )
    sasl_oauthbearer_token_provider: Callable[[], str] | None = None
    """Called for a token whenever a connection is made. Not text, so only as a keyword."""

    def __post_init__(self) -> None:
        protocol = self.security_protocol
        if not protocol.uses_sasl:
            if self.sasl_mechanism is not None:
                raise _contradiction("sasl.mechanism", self.sasl_mechanism, protocol, "SASL_PLAINTEXT or SASL_SSL")
            return
        if self.sasl_mechanism is None:
            raise SettingError(
                "sasl.mechanism",
                f"security.protocol={protocol.value} needs sasl.mechanism: one of {', '.join(MECHANISMS)}",
            )
        if self.sasl_mechanism == "OAUTHBEARER":
            if self.sasl_oauthbearer_token_provider is None:
                raise SettingError(
                    "sasl_oauthbearer_token_provider",
                    "sasl.mechanism=OAUTHBEARER needs sasl_oauthbearer_token_provider, a function that gives a token",
                )
        else:
            self.credentials()

    def __repr__(self) -> str:
        return f"<SecurityConfig {self.security_protocol.value} {self.sasl_mechanism or ''}>"

    def credentials(self) -> tuple[str, str]:
        """User and password. Raises ``SettingError`` if one is missing."""
        options = {} if self.sasl_jaas_config is None else _jaas_options(self.sasl_jaas_config)
        username = self.sasl_username if self.sasl_username is not None else options.get("username")
        password = self.sasl_password if self.sasl_password is not None else options.get("password")
        for name, value in (("username", username), ("password", password)):
            if not value:
                raise SettingError(
                    f"sasl.{name}",
                    f"sasl.mechanism={self.sasl_mechanism} needs sasl.{name}, or {name}=... in sasl.jaas.config",
                )
        assert username is not None
        assert password is not None
        return username, password


SECURITY_SETTINGS: Final = tuple(declared_in(SecurityConfig))

_OPTION: Final = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;"\']+))')


def _jaas_options(text: str) -> dict[str, str]:
    """The options in ``some.LoginModule required username="u" password="p";``."""
    found: dict[str, str] = {}
    for match in _OPTION.finditer(text):
        quoted = match[2]
        found[match[1]] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else match[3] or match[4] or ""
    return found


def _contradiction(setting: str, value: str, protocol: SecurityProtocol, needed: str) -> SettingError:
    return SettingError(
        setting, f"{setting}={value} contradicts security.protocol={protocol.value}: set it to {needed}"
    )
