"""SaslAuthenticate (versions 0-2) outside of an authentication: always refused, like in ``sasl_handshake``."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def sasl_authenticate(node: Node, request: Request, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
