"""A broker whose listener wants SASL, with users, and what a test does with it byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from semel.errors import ErrorCode
from semel.security.sasl.client import Scram
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.raw_client import RawClient

ALICE = "sésame, ouvre=toi"
BOB = "hunter2-of-bob"


@contextmanager
def sasl_broker(**settings: Any) -> Iterator[Broker]:
    """With alice and bob, both with a password for both kinds of SCRAM."""
    with Broker(users={"alice": ALICE, "bob": BOB}, **settings) as broker:
        yield broker


def handshake(client: RawClient, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    answer = client.call(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))
    assert isinstance(answer, SaslHandshakeResponse)
    return answer


def authenticate(client: RawClient, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    answer = client.call(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


def log_in(
    client: RawClient, user: str = "alice", password: str = ALICE, mechanism: str = "SCRAM-SHA-512", version: int = 2
) -> SaslAuthenticateResponse:
    """With SCRAM; the last answer."""
    assert handshake(client, mechanism).error_code == ErrorCode.NONE
    scram = Scram(mechanism, user, password, "the-clients-nonce")
    first = authenticate(client, scram.first(), version)
    assert first.error_code == ErrorCode.NONE
    proof = scram.answer(first.auth_bytes)
    assert proof is not None
    last = authenticate(client, proof, version)
    if last.error_code == ErrorCode.NONE:
        assert scram.answer(last.auth_bytes) is None
    return last
