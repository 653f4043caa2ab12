"""The TLS settings of a client as an ``ssl.SSLContext``, and the network that uses it."""

from __future__ import annotations

import ssl

from semel.client.security.config import SecurityConfig
from semel.net.certificates import load_own_certificate, load_trusted_certificates
from semel.net.network import SystemNetwork


def network_for(security: SecurityConfig) -> SystemNetwork:
    """Return the network that a client with these settings uses."""
    if not security.security_protocol.uses_tls:
        return SystemNetwork()
    context = tls_context(security)
    return SystemNetwork(tls=lambda: context)


def tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """Return the TLS context of these settings. Raises ``SettingError`` that names what cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not security.ssl_endpoint_identification_algorithm:
        context.check_hostname = False
    if not load_trusted_certificates(context, security):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    load_own_certificate(context, security)
    return context


def endpoint_tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """Return the TLS context for the token endpoint: it trusts the system's certificates and ``ssl.truststore``.

    The name in the endpoint's certificate is always checked. Raises ``SettingError``.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_trusted_certificates(context, security)
    return context
