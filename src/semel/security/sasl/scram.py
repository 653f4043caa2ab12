"""SCRAM (RFC 5802, RFC 7677): the messages and the computations that client and broker share.

    client-first   n,,n=user,r=nonce
    server-first   r=nonce+more,s=salt,i=iterations
    client-final   c=biws,r=nonce+more,p=proof
    server-final   v=signature

Names and passwords are used as their UTF-8 bytes, without SASLprep, as in Kafka.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from semel.wire.codes import ScramMechanism

HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
MECHANISMS: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
"""The mechanisms by their SASL names."""
ITERATIONS_MIN: Final = 4096
"""The minimum number of iterations, as in Kafka."""


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return the salted password (``Hi`` in RFC 5802). This takes milliseconds, without holding the GIL."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", HASHES[mechanism])


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", HASHES[mechanism])


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """Return the hash of the client's key, which a broker stores (``StoredKey``)."""
    return hashlib.new(HASHES[mechanism], key).digest()


def signature(mechanism: ScramMechanism, key: bytes, messages: bytes) -> bytes:
    """Return the signature of all messages so far (``AuthMessage``), with the stored key or the server's key."""
    return hmac.digest(key, messages, HASHES[mechanism])


def exclusive_or(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def escaped_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def plain_name(escaped: str) -> str:
    """Return the name without SCRAM's escapes. Raises ``ValueError`` if it is empty or wrongly escaped."""
    name = escaped.replace("=2C", ",").replace("=3D", "\0")
    if not escaped or "=" in name or "\0" in escaped:
        raise ValueError("the name is empty or not escaped as it must be")
    return name.replace("\0", "=")


def encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def decode_base64(text: str) -> bytes:
    """Return the bytes of a base64 text. Raises ``ValueError`` if it is not the canonical encoding of its bytes."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64") from None
    if encode_base64(value) != text:
        raise ValueError("not base64 as it must be written")
    return value
