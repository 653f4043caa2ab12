"""PLAIN (RFC 4616) on the broker's side: the client sends its password in plain text, so it is for TLS connections.

[authorization id] NUL user NUL password
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from semel.security.sasl import scram
from semel.security.sasl.scram_credentials import ScramCredential
from semel.security.sasl.server import OTHER_IDENTITY, Authenticated, BlockingStep, Refused, Step
from semel.wire.codes import ScramMechanism

_WRONG: Final = Refused("wrong user or password", "Authentication failed: Invalid username or password")


class PlainServer:
    """One PLAIN exchange. ``configured`` maps the users of the start configuration to their passwords.

    All other users are verified with their SCRAM credentials. ``credential_of`` returns a credential for every name, so
    that an unknown name takes as much time as a wrong password.
    """

    def __init__(
        self,
        configured: Mapping[str, str],
        credential_of: Callable[[str], tuple[ScramMechanism, ScramCredential]],
    ) -> None:
        self._configured = configured
        self._credential_of = credential_of
        self.user: str | None = None

    def step(self, token: bytes) -> Step:
        try:
            identity, user, password = token.decode().split("\0")
        except ValueError:
            return Refused("not a message of PLAIN: expected an authorization id, a user and a password")
        self.user = user
        if not user or not password:
            return _WRONG
        if identity not in ("", user):
            return OTHER_IDENTITY
        known = self._configured.get(user)
        mechanism, credential = self._credential_of(user)

        def verify() -> Authenticated | Refused:
            # Both are verified for every user, so that the time does not reveal whether and where the user is known.
            secret = password.encode()
            salted = scram.salted_password(mechanism, secret, credential.salt, credential.iterations)
            key = scram.stored_key(mechanism, scram.client_key(mechanism, salted))
            is_stored = hmac.compare_digest(key, credential.stored_key)
            is_configured = hmac.compare_digest(secret, (known or "").encode()) and known is not None
            is_right = is_stored if known is None else is_configured
            return Authenticated(user) if is_right else _WRONG

        return BlockingStep(verify)
