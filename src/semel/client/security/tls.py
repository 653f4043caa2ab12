"""The TLS settings as Python's ``ssl`` wants them, and the network that uses them."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator

from semel.client.security.config import SecurityConfig
from semel.net.network import SystemNetwork
from semel.settings import SettingError


def network_for(security: SecurityConfig) -> SystemNetwork:
    """The network that a client with these settings speaks through."""
    return SystemNetwork(tls=tls_context(security) if security.security_protocol.uses_tls else None)


def tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """Raises ``SettingError`` that names the setting whose file or text cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not security.ssl_endpoint_identification_algorithm:
        context.check_hostname = False
    _trust(context, security)
    _identify(context, security)
    return context


def _trust(context: ssl.SSLContext, security: SecurityConfig) -> None:
    if security.ssl_truststore_location is not None:
        with _naming("ssl.truststore.location", security.ssl_truststore_location):
            context.load_verify_locations(cafile=security.ssl_truststore_location)
    if security.ssl_truststore_certificates is not None:
        with _naming("ssl.truststore.certificates"):
            context.load_verify_locations(cadata=security.ssl_truststore_certificates)
    if security.ssl_truststore_location is None and security.ssl_truststore_certificates is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def _identify(context: ssl.SSLContext, security: SecurityConfig) -> None:
    password = security.ssl_key_password
    if security.ssl_keystore_location is not None:
        with _naming("ssl.keystore.location", security.ssl_keystore_location):
            context.load_cert_chain(security.ssl_keystore_location, password=password)
        return
    chain, key = security.ssl_keystore_certificate_chain, security.ssl_keystore_key
    if (chain is None) != (key is None):
        raise SettingError(
            "ssl.keystore.key", "ssl.keystore.key and ssl.keystore.certificate.chain belong together: set both"
        )
    if chain is not None and key is not None:
        with _naming("ssl.keystore.key"), _as_file(key + "\n" + chain) as path:
            context.load_cert_chain(path, password=password)


@contextlib.contextmanager
def _naming(setting: str, path: str | None = None) -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError, ValueError) as error:
        what = setting if path is None else f"{setting}={path}"
        raise SettingError(setting, f"{what} cannot be used: {error}") from error


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """``ssl`` reads keys from files only. This one is readable by its owner and gone right after."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
