"""The settings of TLS and SASL, under Kafka's names.

Certificates and keys are PEM, in files or as text; Java's keystores (JKS, PKCS12) are not read. User and password come
from ``sasl.jaas.config``, as in Java, or from ``sasl.username`` and ``sasl.password``, as in librdkafka. A token for
OAUTHBEARER comes from a function of the application, or from the token endpoint of an authorization server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from semel.security.sasl.jaas import jaas_options
from semel.security.security_protocol import SecurityProtocol
from semel.settings import AtLeast, OneOf, SettingError, SettingType, declare, declared_in

BOOLEAN, STRING, PASSWORD = SettingType.BOOLEAN, SettingType.STRING, SettingType.PASSWORD
INT, LONG = SettingType.INT, SettingType.LONG

TokenProvider: TypeAlias = Callable[[], str | Awaitable[str]]

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_ALLOW_HTTP: Final = "sasl.oauthbearer.token.endpoint.allow.http"
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
# Kafka's classes for token endpoints. They are never loaded: a configuration for Java's clients may name them.
_JAVA_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_JAVA_HANDLERS: Final = (
    f"{_JAVA_OAUTH}.OAuthBearerLoginCallbackHandler",
    f"{_JAVA_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
)
_JAVA_RETRIEVERS: Final = (f"{_JAVA_OAUTH}.ClientCredentialsJwtRetriever", f"{_JAVA_OAUTH}.DefaultJwtRetriever")

_PROTOCOLS: Final = tuple(protocol.value for protocol in SecurityProtocol)
_PEM: Final = "PEM"


class ClientCredentials(NamedTuple):
    """The credentials of this client at the authorization server that issues its tokens."""

    client_id: str
    client_secret: str
    scope: str | None

    def __repr__(self) -> str:
        return f"<ClientCredentials {self.client_id}>"


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    security_protocol: SecurityProtocol = declare(  # noqa: RUF009 (it makes a field)
        "security.protocol",
        STRING,
        "PLAINTEXT",
        "Whether connections to brokers use TLS (SSL), SASL, both (SASL_SSL) or neither.",
        rule=OneOf(_PROTOCOLS),
        read=SecurityProtocol,
    )
    sasl_mechanism: str | None = declare(
        "sasl.mechanism", STRING, None, "The SASL mechanism: how this client authenticates.", rule=OneOf(MECHANISMS)
    )
    sasl_jaas_config: str | None = declare(
        "sasl.jaas.config", PASSWORD, None, 'User and password as Java has them: ``... username="u" password="p";``.'
    )
    sasl_username: str | None = declare("sasl.username", STRING, None, "The user, for PLAIN and SCRAM.")
    sasl_password: str | None = declare("sasl.password", PASSWORD, None, "The user's password, for PLAIN and SCRAM.")
    sasl_oauthbearer_token_endpoint_url: str | None = declare(
        _TOKEN_ENDPOINT, STRING, None, "The https address where an authorization server issues tokens, for OAUTHBEARER."
    )
    sasl_oauthbearer_token_endpoint_allow_http: bool = declare(
        _ALLOW_HTTP,
        BOOLEAN,
        False,
        "Whether the token endpoint may be an http address of this machine (localhost), for tests.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = declare(
        _CLIENT_ID, STRING, None, "The client id at the token endpoint; or ``clientId=...`` in sasl.jaas.config."
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = declare(
        _CLIENT_SECRET,
        PASSWORD,
        None,
        "The client's secret at the token endpoint; or ``clientSecret=...`` in sasl.jaas.config.",
    )
    sasl_oauthbearer_scope: str | None = declare(
        "sasl.oauthbearer.scope", STRING, None, "The scope of the token; or ``scope=...`` in sasl.jaas.config."
    )
    sasl_oauthbearer_header_urlencode: bool = declare(
        "sasl.oauthbearer.header.urlencode",
        BOOLEAN,
        False,
        "Whether client id and secret are URL-encoded in the request's header, as RFC 6749 says.",
    )
    sasl_login_callback_handler_class: str | None = declare(
        "sasl.login.callback.handler.class",
        STRING,
        None,
        "A class that Java's client needs for a token endpoint. This client accepts it and ignores it.",
        rule=OneOf(_JAVA_HANDLERS),
    )
    sasl_oauthbearer_jwt_retriever_class: str | None = declare(
        "sasl.oauthbearer.jwt.retriever.class",
        STRING,
        None,
        "A class that Java's client needs to get tokens. This client accepts it and ignores it.",
        rule=OneOf(_JAVA_RETRIEVERS),
    )
    sasl_login_connect_timeout_ms: int = declare(
        "sasl.login.connect.timeout.ms",
        INT,
        10_000,
        "How long connecting to the token endpoint may take.",
        rule=AtLeast(1),
    )
    sasl_login_read_timeout_ms: int = declare(
        "sasl.login.read.timeout.ms", INT, 10_000, "How long the token endpoint may take to answer.", rule=AtLeast(1)
    )
    sasl_login_retry_backoff_ms: int = declare(
        "sasl.login.retry.backoff.ms",
        LONG,
        100,
        "The pause before a token is requested again after a failure; it doubles with every failure.",
        rule=AtLeast(0),
    )
    sasl_login_retry_backoff_max_ms: int = declare(
        "sasl.login.retry.backoff.max.ms",
        LONG,
        10_000,
        "How long a failed request for a token is retried in all.",
        rule=AtLeast(0),
    )
    ssl_truststore_type: str = declare(
        "ssl.truststore.type", STRING, _PEM, "The format of the trusted certificates.", rule=OneOf((_PEM,))
    )
    ssl_truststore_location: str | None = declare(
        "ssl.truststore.location", STRING, None, "A file of trusted certificates. Unset: those of the system."
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
        "ssl.key.password", PASSWORD, None, "The password of the client's encrypted private key."
    )
    ssl_endpoint_identification_algorithm: str = declare(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "Whether a broker's certificate must name its host: https, or empty for no.",
        rule=OneOf(("https", "")),
    )
    sasl_oauthbearer_token_provider: TokenProvider | None = None
    """Called for a token whenever a connection is made, in a thread of its own, or awaited.

    It is not text, so it can only be given as a keyword.
    """

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
            self._check_tokens()
        else:
            self.credentials()

    def __repr__(self) -> str:
        return f"<SecurityConfig {self.security_protocol.value} {self.sasl_mechanism or ''}>"

    def client_credentials(self) -> ClientCredentials:
        """Return the credentials for the token endpoint. Raises ``SettingError`` if one is missing."""
        options = {} if self.sasl_jaas_config is None else jaas_options(self.sasl_jaas_config)
        client_id = self.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
        client_secret = self.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret")
        for setting, option, value in (
            (_CLIENT_ID, "clientId", client_id),
            (_CLIENT_SECRET, "clientSecret", client_secret),
        ):
            if not value:
                raise SettingError(setting, f"{_TOKEN_ENDPOINT} needs {setting}, or {option}=... in sasl.jaas.config")
        assert client_id is not None
        assert client_secret is not None
        return ClientCredentials(client_id, client_secret, self.sasl_oauthbearer_scope or options.get("scope"))

    def _check_tokens(self) -> None:
        url, provider = self.sasl_oauthbearer_token_endpoint_url, self.sasl_oauthbearer_token_provider
        if (url is None) == (provider is None):
            raise SettingError(
                _TOKEN_ENDPOINT,
                f"sasl.mechanism=OAUTHBEARER needs one of two: {_TOKEN_ENDPOINT}, or "
                f"sasl_oauthbearer_token_provider, a function that returns a token; "
                f"{'none is' if url is None else 'both are'} set",
            )
        if url is not None:
            _check_url(url, allows_http=self.sasl_oauthbearer_token_endpoint_allow_http)
            self.client_credentials()

    def credentials(self) -> tuple[str, str]:
        """Return user and password. Raises ``SettingError`` if one is missing."""
        options = {} if self.sasl_jaas_config is None else jaas_options(self.sasl_jaas_config)
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
PASSWORD_SETTINGS: Final = tuple(setting.name for setting in SECURITY_SETTINGS if setting.type is PASSWORD)
"""The settings whose values are never shown. As in Kafka, certificates are among them."""


def _check_url(url: str, *, allows_http: bool) -> None:
    """Raise ``SettingError`` for a URL to which no secret may be sent. The message shows no password."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise SettingError(_TOKEN_ENDPOINT, f"{_TOKEN_ENDPOINT} is no address: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise SettingError(_TOKEN_ENDPOINT, f"{_TOKEN_ENDPOINT} has a user or a password in it: set {_CLIENT_SECRET}")
    if not host or parts.scheme not in ("https", "http"):
        raise SettingError(_TOKEN_ENDPOINT, f"{_TOKEN_ENDPOINT}={url}: an address of the form https://host/path")
    if parts.scheme == "http" and not (allows_http and host in _LOCAL_HOSTS):
        raise SettingError(
            _TOKEN_ENDPOINT,
            f"{_TOKEN_ENDPOINT}={url}: the secret would travel in the clear. Use https; {_ALLOW_HTTP}=true allows http "
            "to localhost",
        )


def _contradiction(setting: str, value: str, protocol: SecurityProtocol, needed: str) -> SettingError:
    return SettingError(
        setting, f"{setting}={value} contradicts security.protocol={protocol.value}: set it to {needed}"
    )
