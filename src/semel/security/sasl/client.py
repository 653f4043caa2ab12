"""SASL mechanisms on the client's side: each computes its first message and its responses to the broker's challenges.

They do no I/O; their messages are sent in SaslAuthenticate requests (``login.py``). A mechanism in which the broker
authenticates too raises ``SaslError`` if the broker fails to.
"""

from __future__ import annotations

from typing import Protocol

from semel.errors import SemelError
from semel.security.sasl.scram_client import ScramExchange


class SaslError(SemelError):
    """The SASL exchange failed on the client's side."""


class Mechanism(Protocol):
    name: str

    def first(self) -> bytes:
        """Return the first message of the client."""

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the response to a challenge, or ``None`` if no message is left to send. Raises ``SaslError``."""


class Plain:
    """PLAIN (RFC 4616): sends user and password in plain text, so it should only be used over TLS."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    """SCRAM (RFC 5802): the password itself is never sent, and the broker proves that it knows its keys, too."""

    def __init__(self, name: str, username: str, password: str, nonce: str) -> None:
        self.name = name
        self._exchange = ScramExchange(name, username, password, nonce)

    def first(self) -> bytes:
        return self._exchange.client_first()

    def answer(self, challenge: bytes) -> bytes | None:
        try:
            if not self._exchange.has_proven:
                return self._exchange.client_final(challenge)
            self._exchange.verify(challenge)
        except ValueError as error:
            raise SaslError(f"{self.name}: {error}") from None
        return None


class OAuthBearer:
    """OAUTHBEARER (RFC 7628): sends a token that an authorization server has issued."""

    name = "OAUTHBEARER"

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        # A challenge is the broker's reason for refusing, in JSON. The client has to send this byte before the broker
        # responds with the error code.
        return b"\x01" if challenge else None
