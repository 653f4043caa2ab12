"""SCRAM on the client's side. The messages are described in ``scram.py``."""

from __future__ import annotations

import hmac
from typing import Final

from semel.security.sasl import scram

_GS2_HEADER: Final = "n,,"
# More iterations would be an attack on the processor of the client.
_ITERATIONS_MAX: Final = 1_000_000
_ITERATIONS_DIGITS_MAX: Final = 7


class ScramExchange:
    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._mechanism = scram.MECHANISMS[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._first_bare = f"n={scram.escaped_name(username)},r={nonce}"
        self._server_signature: bytes | None = None

    @property
    def has_proven(self) -> bool:
        """Whether the client has sent its proof, which is its last message."""
        return self._server_signature is not None

    def client_first(self) -> bytes:
        return (_GS2_HEADER + self._first_bare).encode()

    def client_final(self, server_first: bytes) -> bytes:
        """Return the final message, with the proof. Raises ``ValueError`` for a challenge that breaks the protocol."""
        mechanism, challenge = self._mechanism, server_first.decode()
        fields = _fields(challenge)
        nonce, iterations = fields.get("r", ""), _iterations(fields.get("i", ""))
        if "m" in fields:
            raise ValueError("the broker wants an extension that this client does not know")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ValueError("the broker's nonce does not continue the client's")
        without_proof = f"c={scram.encode_base64(_GS2_HEADER.encode())},r={nonce}"
        messages = ",".join((self._first_bare, challenge, without_proof)).encode()
        salt = scram.decode_base64(fields.get("s", ""))
        salted = scram.salted_password(mechanism, self._password, salt, iterations)
        key = scram.client_key(mechanism, salted)
        proof = scram.exclusive_or(key, scram.signature(mechanism, scram.stored_key(mechanism, key), messages))
        self._server_signature = scram.signature(mechanism, scram.server_key(mechanism, salted), messages)
        return f"{without_proof},p={scram.encode_base64(proof)}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise ``ValueError`` unless the broker has proven that it knows the password's keys."""
        fields = _fields(server_final.decode())
        if "e" in fields:
            raise ValueError(f"the broker refused: {fields['e']}")
        assert self._server_signature is not None
        if not hmac.compare_digest(scram.decode_base64(fields.get("v", "")), self._server_signature):
            raise ValueError("the broker could not prove that it knows the password")


def _iterations(text: str) -> int:
    few = len(text) <= _ITERATIONS_DIGITS_MAX and text.isascii() and text.isdigit()
    if few and scram.ITERATIONS_MIN <= (iterations := int(text)) <= _ITERATIONS_MAX:
        return iterations
    raise ValueError(f"{text!r} iterations; between {scram.ITERATIONS_MIN} and {_ITERATIONS_MAX} are accepted")


def _fields(message: str) -> dict[str, str]:
    """Return the fields of a message. Raises ``ValueError`` if it is not made of fields, or has one twice."""
    fields: dict[str, str] = {}
    for part in message.split(","):
        name, equals, value = part.partition("=")
        if not name or not equals or name in fields:
            raise ValueError("not a message of SCRAM")
        fields[name] = value
    return fields
