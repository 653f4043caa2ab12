"""SaslAuthenticate: one message of the chosen SASL mechanism."""

from __future__ import annotations

from semel.wire.schema import BYTES, INT16, INT64, STRING, field, message


@message(versions=(0, 2), flexible_since=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes = field(BYTES)


@message(versions=(0, 2), flexible_since=2)
class SaslAuthenticateResponse:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, since=1)
