"""SaslHandshake and SaslAuthenticate on a listener that asks for no proof: Kafka's answers, and the client goes on."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.raw_client import RawClient


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_is_answered_with_illegal_sasl_state(client: RawClient, version: int) -> None:
    answer = client.call(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest("PLAIN"))
    assert answer == SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_token_is_answered_with_illegal_sasl_state(client: RawClient, version: int) -> None:
    answer = client.call(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(b"\0alice\0secret"))
    text = "SaslAuthenticate request received after successful authentication"
    assert answer == SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text, b"")
    assert client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).error_code == 0
