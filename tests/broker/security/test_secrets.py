"""No password, token, key or salt in a log, whatever clients and the world do."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator

import pytest

from semel import blocking
from semel.errors import KafkaError
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.broker.raw_client import RawClient
from tests.broker.security.sasl_listener import ALICE, BOB, authenticate, handshake, log_in, sasl_broker

CAROL = "carols-own-password"
WRONG = "a-wrong-password-that-may-be-right-elsewhere"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with sasl_broker(
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        sasl_plain_without_tls=True,
        plain_sasl_jaas_config=f'PlainLoginModule required user_carol="{CAROL}";',
        connections_max_reauth_ms=60_000,
    ) as running:
        yield running


def test_cve_2019_12399_no_secret_is_in_any_line_of_any_log_or_description(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT"}
    told: list[str] = []
    for mechanism, user, password in (
        ("PLAIN", "alice", ALICE),
        ("PLAIN", "carol", CAROL),
        ("PLAIN", "carol", WRONG),
        ("SCRAM-SHA-512", "bob", BOB),
        ("SCRAM-SHA-256", "bob", WRONG),
    ):
        try:
            with blocking.Admin(
                **settings, sasl_mechanism=mechanism, sasl_username=user, sasl_password=password
            ) as admin:
                admin.users.upsert("dave", "daves-new-password")
                described = admin.configs.describe_many([_broker()])
                told.append(repr(described))
        except KafkaError as error:
            told += [repr(error), str(error)]
    for text in (f"\0alice\0{WRONG}\0", f"\0{WRONG}", f"n,,n=alice,r={WRONG},="):
        for name in ("PLAIN", "SCRAM-SHA-256"):
            with RawClient(broker.port) as client:
                handshake(client, name)
                authenticate(client, text.encode())
    with RawClient(broker.port) as client:
        log_in(client)
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(f"\0alice\0{WRONG}".encode()))

    async def shown() -> str:
        real = broker._broker
        assert real is not None
        return repr([real.node.image, real.config])

    logged = "\n".join(logging.Formatter().format(record) for record in caplog.records)
    assert "login of" in logged
    everything = "\n".join([logged, *told, broker._call(shown())])
    secrets = [ALICE, BOB, CAROL, WRONG, "daves-new-password", *_kept(broker)]
    assert [secret for secret in secrets if secret in everything] == []


def _kept(broker: Broker) -> list[str]:
    """What the cluster keeps, as it could show: in base64, in hexadecimal, as Python writes bytes."""

    async def kept() -> list[bytes]:
        real = broker._broker
        assert real is not None
        security = real.node.image.security
        assert security is not None
        assert security.user_secret is not None
        keys = [security.user_secret]
        for credentials in security.users.values():
            for one in credentials.values():
                keys += [one.salt, one.stored_key, one.server_key]
        return keys

    values = broker._call(kept())
    return [text for value in values for text in (base64.b64encode(value).decode(), value.hex(), repr(value)[2:-1])]


def _broker() -> object:
    from semel.client.admin.configs import ConfigResource

    return ConfigResource.broker(1)
