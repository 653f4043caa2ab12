"""SASL mechanisms as small machines: what to send first, and what to answer to what the broker says.

They decide and compute; the bytes travel in SaslAuthenticate (``sasl_login``). A mechanism that does not believe the
broker raises ``SaslError``: the proof of identity goes both ways.
"""

from __future__ import annotations

from typing import Protocol

from semel.errors import SemelError
from semel.security.sasl.scram_client import ScramExchange


class SaslError(SemelError):
    """The exchange cannot go on."""


class Mechanism(Protocol):
    name: str

    def first(self) -> bytes:
        """What the client says first."""

    def answer(self, challenge: bytes) -> bytes | None:
        """What it says next; ``None`` if it has said everything. Raises ``SaslError``."""


class Plain:
    """RFC 4616: user and password as they are, so only over TLS."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    """RFC 5802: the password itself never travels, and the broker proves that it knows it, too."""

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
    """RFC 7628: a token that an authorization server has issued."""

    name = "OAUTHBEARER"

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        # The broker says in JSON why it refuses, and wants to hear this before it says so with an error code.
        return b"\x01" if challenge else None
