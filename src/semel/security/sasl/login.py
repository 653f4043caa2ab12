"""Authenticates a new connection of a client: SaslHandshake, then SaslAuthenticate until the mechanism is complete.

    HANDSHAKE --the broker supports the mechanism--> EXCHANGE --the mechanism has no more messages--> done

The law: no other request is sent on the connection before authentication is complete. A refusal of the broker is final,
because repeated attempts with the same wrong password can lock an account.
"""

from __future__ import annotations

from typing import Final

from semel.clock import NEVER
from semel.errors import AuthorizationFailed, ErrorCode, named
from semel.security.sasl.client import Mechanism, SaslError
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Request = SaslHandshakeRequest | SaslAuthenticateRequest

# The share of its lifetime after which a session is renewed. Brokers refuse to authenticate again within a second.
_SESSION_SHARE: Final = 0.85
_SESSION_MS_MIN: Final = 1_100


class Authentication:
    """The authentication of one connection: takes responses and returns the next request."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._is_done = False
        self.session_lifetime_ms = 0
        """The lifetime of the authenticated session that the broker has set; 0 if it ends only with the connection."""

    @property
    def renewal_ms(self) -> float:
        """The time from authentication to reauthentication on the same connection (KIP-368)."""
        lifetime_ms = self.session_lifetime_ms
        return max(lifetime_ms * _SESSION_SHARE, _SESSION_MS_MIN) if lifetime_ms else NEVER

    def first(self) -> Request:
        return SaslHandshakeRequest(self._mechanism.name)

    def answered(self, response: object) -> Request | None:
        """Return the next request, or ``None`` if the client is authenticated. Raises ``AuthorizationFailed``."""
        match response:
            case SaslHandshakeResponse():
                if response.error_code != ErrorCode.NONE:
                    known = ", ".join(response.mechanisms) or "none"
                    raise _failed(response.error_code, f"the broker knows no {self._mechanism.name}; it knows {known}")
                return SaslAuthenticateRequest(self._mechanism.first())
            case SaslAuthenticateResponse():
                if response.error_code != ErrorCode.NONE:
                    raise _failed(response.error_code, response.error_message or named(response.error_code).name)
                self.session_lifetime_ms = response.session_lifetime_ms
                return self._next(response.auth_bytes)
        raise AssertionError(f"{type(response).__name__} is no answer to anything that was asked here")

    def _next(self, challenge: bytes) -> Request | None:
        try:
            token = self._mechanism.answer(challenge)
        except SaslError as error:
            raise _failed(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from None
        return None if token is None else SaslAuthenticateRequest(token)


def _failed(code: int, reason: str) -> AuthorizationFailed:
    return AuthorizationFailed(
        named(code), f"{reason}. Look at sasl.mechanism, user and password; this client must be closed"
    )
