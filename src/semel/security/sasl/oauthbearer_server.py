"""OAUTHBEARER (RFC 7628) on the broker's side: the client sends a token that an authorization server has signed.

client    n,[a=authorization id],^Aauth=Bearer token^A[key=value^A]^A
broker    nothing, or the reason for refusing it, in JSON
client    ^A, after which the broker refuses it with an error code
"""

from __future__ import annotations

import json
import re
from typing import Final

from semel.security.sasl import scram
from semel.security.sasl.access_tokens import Accepted, TokenVerifier
from semel.security.sasl.server import OTHER_IDENTITY, Authenticated, BlockingStep, Challenge, Refused, Step

_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<identity>[^,\x01]+))?,\x01auth=(?P<scheme>\w+) +(?P<token>[\w.+/=~-]+)\x01"
    r"(?:[A-Za-z]+=[^\x01]*\x01)*\x01",
    re.ASCII,
)
_INVALID_TOKEN: Final = json.dumps({"status": "invalid_token"})


class OAuthBearerServer:
    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier
        self.user: str | None = None
        self._refusal: Refused | None = None
        """The refusal that follows the client's answer to the challenge with the reason. ``None`` before that one."""

    def step(self, token: bytes) -> Step:
        if self._refusal is not None:
            return self._refusal
        try:
            message = _CLIENT_FIRST.fullmatch(token.decode())
            identity = None if message is None or message["identity"] is None else scram.plain_name(message["identity"])
        except ValueError:
            message = identity = None
        if message is None or message["scheme"].lower() != "bearer":
            return Refused("not a message of OAUTHBEARER")
        presented: str = message["token"]
        if self._verifier.needs_keys(presented):
            return BlockingStep(lambda: self._judged(presented, identity, fetch=True))
        return self._judged(presented, identity, fetch=False)

    def _judged(self, token: str, identity: str | None, *, fetch: bool) -> Challenge | Authenticated | Refused:
        if fetch:
            self._verifier.fetch_keys()
        verdict = self._verifier.verify(token)
        if isinstance(verdict, Accepted):
            self.user = verdict.user
        else:
            self._refusal = Refused(verdict.reason, _INVALID_TOKEN)
            return Challenge(_INVALID_TOKEN.encode())
        if identity not in (None, verdict.user):
            return OTHER_IDENTITY
        return Authenticated(verdict.user, expires_at_ms=verdict.expires_at_ms)
