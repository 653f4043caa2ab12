"""One SCRAM exchange (RFC 5802, RFC 7677), from the client's side.

client-first   n,,n=user,r=nonce
server-first   r=nonce+more,s=salt,i=iterations
client-final   c=biws,r=nonce+more,p=proof
server-final   v=signature
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_GS2_HEADER: Final = "n,,"
# Fewer are not worth the name; more are an attack on the client's processor. Kafka's own minimum is 4096.
_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 1_000_000


class ScramExchange:
    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={escaped},r={nonce}"
        self._server_signature: bytes | None = None

    @property
    def has_proven(self) -> bool:
        """Whether the client has said all it has to say."""
        return self._server_signature is not None

    def client_first(self) -> bytes:
        return (_GS2_HEADER + self._first_bare).encode()

    def client_final(self, server_first: bytes) -> bytes:
        """Raises ``ValueError`` for a challenge that breaks the protocol."""
        challenge = server_first.decode()
        fields = _fields(challenge)
        nonce, iterations = fields.get("r", ""), int(fields.get("i", "0"))
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ValueError("the broker's nonce does not continue the client's")
        if not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
            raise ValueError(f"{iterations} iterations; between {_ITERATIONS_MIN} and {_ITERATIONS_MAX} are accepted")
        without_proof = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        message = ",".join((self._first_bare, challenge, without_proof)).encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _decoded(fields.get("s", "")), iterations)
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), message)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raises ``ValueError`` unless the broker has proven that it knows the password."""
        fields = _fields(server_final.decode())
        if "e" in fields:
            raise ValueError(f"the broker refused: {fields['e']}")
        assert self._server_signature is not None
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._server_signature):
            raise ValueError("the broker could not prove that it knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not base64: {error}") from None
