"""TLS of a broker: contexts made from the settings, again when files change, and authentication by certificates.

The law: a file that cannot be used never replaces one that could. A certificate that is replaced while the broker runs
is used from the next connection on; if the new one is invalid, the old one is still used, and an error is logged.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from typing import Final

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.listener_config import of_one_listener
from semel.broker.network.connection import Connection
from semel.broker.security.listeners import Listener
from semel.clock import Clock
from semel.errors import DecodeError
from semel.net.certificates import load_own_certificate, load_trusted_certificates
from semel.security.distinguished_name import subject_of
from semel.security.principal import user
from semel.security.principal_mapping import PrincipalMapping
from semel.settings import SettingError

logger = logging.getLogger("semel.broker")

# How often certificate files are examined for changes, at most.
LOOK_MS: Final = 1000

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# The cipher suites of TLS 1.3. Python cannot choose among them.
_TLS_1_3_SUITES: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})


class ReloadedContext:
    """A function that returns the current TLS context: ``make`` makes it again after a certificate file has changed.

    Raises SettingError when it is created. A later error is logged, and the last context stays.
    """

    def __init__(self, make: Callable[[BrokerConfig], ssl.SSLContext], config: BrokerConfig, clock: Clock) -> None:
        self._make = make
        self._config = config
        self._now_ms = clock.monotonic_ms
        files = (config.ssl_keystore_location, config.ssl_truststore_location)
        self._files = tuple(file for file in files if file is not None)
        self._looked_at_ms = self._now_ms()
        self._seen = self._look()
        self._context = make(config)

    def __call__(self) -> ssl.SSLContext:
        now_ms = self._now_ms()
        if now_ms - self._looked_at_ms >= LOOK_MS:
            self._looked_at_ms = now_ms
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = self._make(self._config)
        except SettingError as error:
            logger.error("the certificates go on as they were: %s", error)
        else:
            logger.info("new connections get the certificates of %s, which have changed", ", ".join(self._files))

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_identity(file) for file in self._files)


def _identity(file: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def server_context(config: BrokerConfig, listener: Listener) -> ssl.SSLContext:
    """Return the TLS context for a listener. ``config`` has the settings of that listener. Raises SettingError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that renegotiates again and again could occupy the processor.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _limit(context, config)
    if not load_own_certificate(context, config):
        raise SettingError(
            "ssl.keystore.location",
            f"the listener {listener} needs a certificate: set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain",
        )
    context.verify_mode = _CLIENT_AUTH[_client_auth(config, listener)]
    if context.verify_mode != ssl.CERT_NONE and not load_trusted_certificates(context, config):
        raise SettingError(
            "ssl.truststore.location",
            f"the listener {listener} asks clients for a certificate (ssl.client.auth), and trusts none: set "
            "ssl.truststore.location or ssl.truststore.certificates",
        )
    return context


def broker_context(config: BrokerConfig) -> ssl.SSLContext:
    """Return the TLS context for connections to other brokers. Raises SettingError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, config)
    if not config.ssl_endpoint_identification_algorithm:
        context.check_hostname = False
    if not load_trusted_certificates(context, config):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    load_own_certificate(context, config)
    return context


def certificate_authentication(
    config: BrokerConfig, serve: Callable[[Connection, memoryview], None], refused: Callable[[str, str], None]
) -> Callable[[Connection], None]:
    """Return the function that authenticates the connections of an SSL listener by their clients' certificates.

    A client without a certificate, where none is required, stays ANONYMOUS. If no principal can be made from a
    certificate, ``refused`` is called with the host and the reason, and the connection is closed.
    """
    mapping = PrincipalMapping(config.ssl_principal_mapping_rules)

    def first_request(connection: Connection, frame: memoryview) -> None:
        certificate = None if connection.tls is None else connection.tls.getpeercert(binary_form=True)
        if certificate is not None:
            try:
                connection.principal = _principal(certificate, mapping)
            except DecodeError as error:
                refused(connection.host, str(error))
                raise
        connection.serve = serve
        serve(connection, frame)

    def authenticate(connection: Connection) -> None:
        connection.serve = first_request

    return authenticate


def _principal(certificate: bytes, mapping: PrincipalMapping) -> str:
    """Return the principal of a certificate's subject. Raises DecodeError, which closes the connection."""
    try:
        subject = subject_of(certificate)
    except ValueError as error:
        raise DecodeError(f"the subject of its certificate cannot be read: {error}") from None
    name = mapping.name(subject)
    if not name:
        raise DecodeError(f"no rule of ssl.principal.mapping.rules gives {subject!r} a name")
    return str(user(name))


def _client_auth(config: BrokerConfig, listener: Listener) -> str:
    """Return ``ssl.client.auth`` of the listener. On a SASL listener it is ``none``, unless the listener's own setting
    says otherwise."""
    if listener.protocol.uses_sasl and not any(
        of_one_listener(name) == (listener.name.lower(), "ssl.client.auth") for name in config.sources.effective()
    ):
        return "none"
    return config.ssl_client_auth


def _limit(context: ssl.SSLContext, config: BrokerConfig) -> None:
    """Limit the context to the TLS versions and cipher suites of the settings."""
    versions = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    if not versions:
        raise SettingError("ssl.enabled.protocols", "ssl.enabled.protocols is empty: no client could connect")
    suites = config.ssl_cipher_suites
    if suites:
        newer = _TLS_1_3_SUITES.intersection(suites)
        older = [suite for suite in suites if suite not in _TLS_1_3_SUITES]
        if newer and newer != _TLS_1_3_SUITES:
            raise SettingError(
                "ssl.cipher.suites",
                f"ssl.cipher.suites names some suites of TLS 1.3 ({', '.join(sorted(newer))}); Python cannot choose "
                f"among them: name all ({', '.join(sorted(_TLS_1_3_SUITES))}) or none",
            )
        spoken = {ssl.TLSVersion.TLSv1_3: bool(newer), ssl.TLSVersion.TLSv1_2: bool(older)}
        versions = [version for version in versions if spoken[version]]
        if not versions:
            raise SettingError(
                "ssl.cipher.suites", f"ssl.cipher.suites has no suite of {', '.join(config.ssl_enabled_protocols)}"
            )
        if older:
            try:
                context.set_ciphers(":".join(map(_openssl_name, older)))
            except ssl.SSLError:
                raise SettingError("ssl.cipher.suites", f"OpenSSL has none of {', '.join(older)}") from None
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite: ``ECDHE-RSA-AES256-GCM-SHA384`` for
    ``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384``."""
    exchange, has_exchange, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not has_exchange:
        return suite  # OpenSSL's own name.
    cipher = cipher.replace("AES_", "AES").replace("CBC_", "").replace("POLY1305_SHA256", "POLY1305")
    return f"{'' if exchange == 'RSA' else exchange + '-'}{cipher}".replace("_", "-")
