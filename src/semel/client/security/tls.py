"""The TLS settings of a client as Python's ``ssl`` wants them, and the network that uses them."""

from __future__ import annotations

import ssl

from semel.client.security.config import SecurityConfig
from semel.net.certificates import identify, trust
from semel.net.network import SystemNetwork


def network_for(security: SecurityConfig) -> SystemNetwork:
    """The network that a client with these settings speaks through."""
    if not security.security_protocol.uses_tls:
        return SystemNetwork()
    context = tls_context(security)
    return SystemNetwork(tls=lambda: context)


def tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """Raises ``SettingError`` that names the setting whose file or text cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not security.ssl_endpoint_identification_algorithm:
        context.check_hostname = False
    if not trust(context, security):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    identify(context, security)
    return context


def endpoint_tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """For the token endpoint: the system's certificates are trusted, and what ``ssl.truststore`` has.

    The name in its certificate is always looked at. Raises ``SettingError``.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    trust(context, security)
    return context
