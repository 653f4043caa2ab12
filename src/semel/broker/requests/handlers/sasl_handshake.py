"""SaslHandshake (versions 0-1) outside of an authentication: always refused.

That is on a listener without SASL, or on an authenticated connection. For authentication and reauthentication
``broker.security.authentication`` serves this API.
"""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(node: Node, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
