"""Contexts made of a broker's settings, and made again when files change; who a client is by its certificate."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.security.listeners import configured_listeners
from semel.broker.security.tls import (
    LOOK_MS,
    ReloadedContext,
    broker_context,
    certificate_authentication,
    server_context,
)
from semel.errors import DecodeError
from semel.settings import SettingError
from semel.testing import certificate
from semel.testing.virtual.clock import ManualClock

KEYSTORE = {
    "ssl.keystore.key": certificate.PRIVATE_KEY,
    "ssl.keystore.certificate.chain": certificate.CERTIFICATE,
}
TRUST = {"ssl.truststore.certificates": certificate.AUTHORITY}


def made(**settings: str) -> ssl.SSLContext:
    """Of the one listener that there is; a name with underscores is one with dots."""
    named = {name.replace("_", "."): text for name, text in settings.items()}
    return context_of({"listeners": "SSL://h:1", **KEYSTORE, **named})


def context_of(settings: dict[str, str]) -> ssl.SSLContext:
    config = BrokerConfig.load("", settings)
    (listener,) = configured_listeners(config).clients
    return server_context(config.for_listener(listener.name), listener)


def test_by_default_two_versions_are_spoken_no_certificate_is_asked_for_and_nothing_is_negotiated_twice() -> None:
    context = made()
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_NO_RENEGOTIATION, "it costs the broker a signature, and the client nothing"
    assert context.options & ssl.OP_NO_COMPRESSION


@pytest.mark.parametrize(
    ("auth", "mode"),
    [("none", ssl.CERT_NONE), ("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)],
)
def test_clients_are_asked_for_a_certificate_as_the_setting_says(auth: str, mode: ssl.VerifyMode) -> None:
    assert made(ssl_client_auth=auth, ssl_truststore_certificates=certificate.AUTHORITY).verify_mode is mode


def test_with_sasl_a_certificate_is_asked_for_only_where_the_listener_says_so() -> None:
    settings = {"listeners": "SASL_SSL://h:1", "ssl.client.auth": "required", **KEYSTORE, **TRUST}
    assert context_of(settings).verify_mode is ssl.CERT_NONE
    own = {**settings, "listener.name.sasl_ssl.ssl.client.auth": "required"}
    assert context_of(own).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("versions", "expected"),
    [("TLSv1.2", (ssl.TLSVersion.TLSv1_2,) * 2), ("TLSv1.3", (ssl.TLSVersion.TLSv1_3,) * 2)],
)
def test_versions_can_be_chosen(versions: str, expected: tuple[ssl.TLSVersion, ssl.TLSVersion]) -> None:
    context = made(ssl_enabled_protocols=versions)
    assert (context.minimum_version, context.maximum_version) == expected


@pytest.mark.parametrize(
    ("suites", "older"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", {"ECDHE-RSA-AES256-GCM-SHA384"}),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", {"ECDHE-ECDSA-CHACHA20-POLY1305"}),
        ("TLS_RSA_WITH_AES_128_CBC_SHA,ECDHE-RSA-AES128-GCM-SHA256", {"AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256"}),
    ],
)
def test_cipher_suites_have_their_standard_names_and_without_one_of_tls_1_3_that_is_not_spoken(
    suites: str, older: set[str]
) -> None:
    context = made(ssl_cipher_suites=suites)
    assert {suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"} == older
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


def test_the_suites_of_tls_1_3_alone_leave_nothing_for_tls_1_2() -> None:
    context = made(ssl_cipher_suites="TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256")
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl_keystore_key": "", "ssl_keystore_certificate_chain": ""}, "ssl.keystore.key cannot be used"),
        ({"ssl_keystore_location": "/nowhere.pem"}, "ssl.keystore.location=/nowhere.pem cannot be used"),
        (
            {"ssl_client_auth": "required"},
            "SSL://h:1 asks clients for a certificate",
        ),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "Python cannot choose among them"),
        ({"ssl_cipher_suites": "TLS_DUKE_WITH_DUKE"}, "OpenSSL has none of TLS_DUKE_WITH_DUKE"),
        (
            {"ssl_cipher_suites": "TLS_RSA_WITH_AES_128_CBC_SHA", "ssl_enabled_protocols": "TLSv1.3"},
            "ssl.cipher.suites has no suite of TLSv1.3",
        ),
        ({"ssl_truststore_location": "/nowhere.pem", "ssl_client_auth": "required"}, "ssl.truststore.location=/now"),
    ],
)
def test_what_cannot_be_used_is_named(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError) as refused:
        made(**settings)
    assert said in str(refused.value)


def test_a_tls_listener_needs_a_certificate() -> None:
    with pytest.raises(SettingError, match=r"SSL://h:1 needs a certificate: set ssl.keystore.location"):
        context_of({"listeners": "SSL://h:1"})


def test_the_password_of_a_key_is_used_and_a_wrong_one_is_not_told(tmp_path: Path) -> None:
    leaf = trustme.CA().issue_cert("h")
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hunter2"),
    )
    file = tmp_path / "own.pem"
    file.write_bytes(encrypted + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    settings = {"listeners": "SSL://h:1", "ssl.keystore.location": str(file)}
    assert context_of({**settings, "ssl.key.password": "hunter2"})
    for wrong in ({}, {"ssl.key.password": "hunter3"}):
        with pytest.raises(SettingError) as refused:
            context_of({**settings, **wrong})
        assert "hunter" not in str(refused.value)


# Files that change


class Files:
    """A certificate in a file, and a context that is asked for as by new connections."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "own.pem"
        self._changes = 0
        self.write(trustme.CA().issue_cert("h"))
        self.clock = ManualClock()
        config = BrokerConfig.load("", {"listeners": "SSL://h:1", "ssl.keystore.location": str(self.path)})
        (listener,) = configured_listeners(config).clients
        self.context = ReloadedContext(partial(server_context, listener=listener), config, self.clock)

    def write(self, leaf: trustme.LeafCert | None) -> None:
        pems = [] if leaf is None else [leaf.private_key_pem, *leaf.cert_chain_pems]
        self.path.write_bytes(b"".join(blob.bytes() for blob in pems) or b"broken")
        self._changes += 1
        os.utime(self.path, ns=(self._changes, self._changes))


def test_a_certificate_that_is_replaced_counts_from_the_next_connection_on(tmp_path: Path) -> None:
    files = Files(tmp_path)
    first = files.context()
    files.clock.advance(10 * LOOK_MS)
    assert files.context() is first, "nothing has changed"
    files.write(trustme.CA().issue_cert("h"))
    assert files.context() is first, "files are not looked at for every connection"
    files.clock.advance(LOOK_MS)
    second = files.context()
    assert second is not first
    assert files.context() is second


def test_a_broken_file_leaves_the_old_certificate_and_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Files(tmp_path)
    first = files.context()
    files.write(None)
    with caplog.at_level(logging.ERROR, "semel.broker"):
        for _ in range(3):
            files.clock.advance(LOOK_MS)
            assert files.context() is first
        (line,) = caplog.messages
        assert line.startswith(f"the certificates go on as they were: ssl.keystore.location={files.path} cannot be")
        files.path.unlink()
        files.clock.advance(LOOK_MS)
        assert files.context() is first
    files.write(trustme.CA().issue_cert("h"))
    files.clock.advance(LOOK_MS)
    assert files.context() is not first, "a good one counts again"


def test_brokers_check_the_names_of_others_unless_told_not_to() -> None:
    config = BrokerConfig.load("", {**KEYSTORE, **TRUST})
    assert broker_context(config).check_hostname
    config = BrokerConfig.load("", {**KEYSTORE, **TRUST, "ssl.endpoint.identification.algorithm": ""})
    context = broker_context(config)
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


# Who a client is


@dataclass
class Shown:
    """What a connection knows of TLS."""

    certificate: bytes | None

    def getpeercert(self, binary_form: bool) -> bytes | None:
        assert binary_form
        return self.certificate


class Connected:
    def __init__(self, certificate: bytes | None) -> None:
        self.tls = Shown(certificate)
        self.principal = "User:ANONYMOUS"
        self.host = "10.0.0.7"
        self.serve: Any = None


def not_refused(host: str, reason: str) -> None:
    raise AssertionError(reason)


def first_request(
    rules: str, certificate: bytes | None, refused: Callable[[str, str], None] = not_refused
) -> tuple[Connected, list[str]]:
    """A connection after its first request, and the principals that its requests were served under."""
    config = BrokerConfig.load("", {"ssl.principal.mapping.rules": rules})
    served: list[str] = []
    connection: Any = Connected(certificate)

    def serve(asking: Any, frame: memoryview) -> None:
        served.append(asking.principal)

    certificate_authentication(config, serve, refused)(connection)
    connection.serve(connection, memoryview(b""))
    assert connection.serve is serve, "the next requests cost nothing"
    return connection, served


DER = ssl.PEM_cert_to_DER_cert(certificate.CERTIFICATE)


@pytest.mark.parametrize(
    ("rules", "principal"),
    [("DEFAULT", "User:CN=localhost"), ("RULE:CN=(.*)/$1/U", "User:LOCALHOST")],
)
def test_a_client_is_known_by_its_certificate_before_its_first_request(rules: str, principal: str) -> None:
    assert first_request(rules, DER)[1] == [principal]


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert first_request("DEFAULT", None)[1] == ["User:ANONYMOUS"]


@pytest.mark.parametrize("rules", ["RULE:CN=duke/$0/", "RULE:CN=(x?).*//"])
def test_a_certificate_that_has_no_name_closes_the_connection(rules: str) -> None:
    refused: list[tuple[str, str]] = []
    with pytest.raises(DecodeError, match="gives 'CN=localhost' a name") as error:
        first_request(rules, DER, lambda host, reason: refused.append((host, reason)))
    assert refused == [("10.0.0.7", str(error.value))]
