"""How a new connection proves who the client is: SaslHandshake, then SaslAuthenticate until the mechanism is content.

    HANDSHAKE --the broker knows the mechanism--> EXCHANGE --the mechanism has said all--> done

The law: nothing but this is sent on a connection before it is done; whatever the broker refuses is final, because
asking again with the same password is how accounts get locked.
"""

from __future__ import annotations

from typing import Final

from semel.clock import NEVER
from semel.errors import AuthorizationFailed, ErrorCode, named
from semel.security.sasl.client import Mechanism, SaslError
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Request = SaslHandshakeRequest | SaslAuthenticateRequest

# A session is renewed before it ends. Before a second has passed no broker takes another proof.
_SESSION_SHARE: Final = 0.85
_SESSION_MS_MIN: Final = 1_100


class Authentication:
    """Of one connection. Feeds on responses and says what to send next."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._is_done = False
        self.session_lifetime_ms = 0
        """How long the broker believes it; 0 for as long as the connection lives."""

    @property
    def renewal_ms(self) -> float:
        """How long after the proof to prove it again, on the same connection (KIP-368)."""
        lifetime_ms = self.session_lifetime_ms
        return max(lifetime_ms * _SESSION_SHARE, _SESSION_MS_MIN) if lifetime_ms else NEVER

    def first(self) -> Request:
        return SaslHandshakeRequest(self._mechanism.name)

    def answered(self, response: object) -> Request | None:
        """The next request, or ``None`` when the client is who it says. Raises ``AuthorizationFailed``."""
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
