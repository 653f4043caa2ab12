"""SCRAM (RFC 5802, RFC 7677): the messages and the arithmetic that client and broker share.

    client-first   n,,n=user,r=nonce
    server-first   r=nonce+more,s=salt,i=iterations
    client-final   c=biws,r=nonce+more,p=proof
    server-final   v=signature

Names and passwords are taken as their UTF-8 bytes, without SASLprep, as Kafka takes them.
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
"""By the names that SASL has for them."""
ITERATIONS_MIN: Final = 4096
"""Kafka's."""


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The costly step: milliseconds, of which the interpreter is free for others."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", HASHES[mechanism])


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", HASHES[mechanism])


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """What is kept of a client's key."""
    return hashlib.new(HASHES[mechanism], key).digest()


def signature(mechanism: ScramMechanism, key: bytes, messages: bytes) -> bytes:
    """Of all messages of the exchange so far (``AuthMessage``), by a stored key or by the server's."""
    return hmac.digest(key, messages, HASHES[mechanism])


def exclusive_or(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def escaped_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def plain_name(escaped: str) -> str:
    """Raises ``ValueError`` for what no client may send."""
    name = escaped.replace("=2C", ",").replace("=3D", "\0")
    if not escaped or "=" in name or "\0" in escaped:
        raise ValueError("the name is empty or not escaped as it must be")
    return name.replace("\0", "=")


def encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def decode_base64(text: str) -> bytes:
    """Raises ``ValueError``, also for text that another text of the same value exists of: one value has one text."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64") from None
    if encode_base64(value) != text:
        raise ValueError("not base64 as it must be written")
    return value
