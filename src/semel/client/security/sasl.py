"""The SASL mechanism that the settings of a client ask for, and the source of tokens for OAUTHBEARER."""

from __future__ import annotations

import re
from random import Random
from typing import Final

from semel.client.security.config import SecurityConfig, TokenProvider
from semel.security.sasl.client import Mechanism, Plain, SaslError, Scram

# RFC 6750. Nothing else is sent: a control character would end the token's field and begin another.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def mechanism_for(security: SecurityConfig, random: Random) -> Mechanism:
    """Return the mechanism of these settings, which is one that needs no token."""
    match security.sasl_mechanism:
        case "PLAIN":
            return Plain(*security.credentials())
        case name:
            assert name is not None
            return Scram(name, *security.credentials(), nonce=f"{random.getrandbits(192):048x}")


def token_provider(security: SecurityConfig) -> TokenProvider | None:
    """Return the function that provides tokens; ``None`` if the mechanism needs none."""
    if security.sasl_mechanism != "OAUTHBEARER":
        return None
    if security.sasl_oauthbearer_token_provider is not None:
        return security.sasl_oauthbearer_token_provider
    from semel.client.security.token_endpoint import token_endpoint  # It imports what few clients need.

    return token_endpoint(security)


def check_token(token: object) -> None:
    """Raise ``SaslError`` if this is no bearer token. The message does not show the token."""
    if not isinstance(token, str):
        raise SaslError(f"a token is text, and this is {type(token).__name__}")
    if _TOKEN.fullmatch(token) is None:
        raise SaslError(f"a token has letters, digits and ._~+/-= only, and this, of length {len(token)}, has others")
