"""Loads certificates and keys in PEM, from files or from text, into an ``ssl.SSLContext``.

Shared by clients and brokers. The law: a certificate or key that cannot be used raises ``SettingError``, which names
the setting and its file and never shows the content of the file.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from typing import Protocol

from semel.settings import SettingError


class TrustSettings(Protocol):
    @property
    def ssl_truststore_location(self) -> str | None: ...
    @property
    def ssl_truststore_certificates(self) -> str | None: ...


class IdentitySettings(Protocol):
    @property
    def ssl_keystore_location(self) -> str | None: ...
    @property
    def ssl_keystore_certificate_chain(self) -> str | None: ...
    @property
    def ssl_keystore_key(self) -> str | None: ...
    @property
    def ssl_key_password(self) -> str | None: ...


def load_trusted_certificates(context: ssl.SSLContext, settings: TrustSettings) -> bool:
    """Make the context trust the certificates that the settings name. Returns whether they name any."""
    if settings.ssl_truststore_location is not None:
        with _naming("ssl.truststore.location", settings.ssl_truststore_location):
            context.load_verify_locations(cafile=settings.ssl_truststore_location)
    if settings.ssl_truststore_certificates is not None:
        with _naming("ssl.truststore.certificates"):
            context.load_verify_locations(cadata=settings.ssl_truststore_certificates)
    return settings.ssl_truststore_location is not None or settings.ssl_truststore_certificates is not None


def load_own_certificate(context: ssl.SSLContext, settings: IdentitySettings) -> bool:
    """Make the context present the certificate that the settings name. Returns whether they name one."""
    # Never None: OpenSSL would prompt at the terminal for the password of an encrypted key.
    password = settings.ssl_key_password or ""
    if settings.ssl_keystore_location is not None:
        with _naming("ssl.keystore.location", settings.ssl_keystore_location):
            context.load_cert_chain(settings.ssl_keystore_location, password=password)
        return True
    chain, key = settings.ssl_keystore_certificate_chain, settings.ssl_keystore_key
    if (chain is None) != (key is None):
        raise SettingError(
            "ssl.keystore.key", "ssl.keystore.key and ssl.keystore.certificate.chain belong together: set both"
        )
    if chain is None or key is None:
        return False
    with _naming("ssl.keystore.key"), _as_file(key + "\n" + chain) as path:
        context.load_cert_chain(path, password=password)
    return True


@contextlib.contextmanager
def _naming(setting: str, path: str | None = None) -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError, ValueError) as error:
        what = setting if path is None else f"{setting}={path}"
        raise SettingError(setting, f"{what} cannot be used: {error}") from error


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Write a text into a temporary file, which only its owner can read, and remove the file afterwards.

    ``ssl`` reads keys from files only.
    """
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
