"""SaslHandshake: choose a SASL mechanism.

After version 1 SASL messages are sent in SaslAuthenticate, after 0 without a header.
"""

from __future__ import annotations

from semel.wire.schema import INT16, STRING, array, field, message


@message(versions=(0, 1), flexible_since=None)
class SaslHandshakeRequest:
    mechanism: str = field(STRING)


@message(versions=(0, 1), flexible_since=None)
class SaslHandshakeResponse:
    error_code: int = field(INT16)
    mechanisms: list[str] = field(array(STRING))
