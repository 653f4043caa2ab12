"""Credentials for users that do not exist, so that a stranger cannot find out which do.

The law: what a stranger is shown of an unknown user (salt and iterations) stays the same from one attempt to the next,
on every broker of the cluster, and looks like that of the users that exist; and no password belongs to it.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Mapping
from typing import Final

from semel.security.sasl.scram_credentials import ScramCredential
from semel.wire.codes import ScramMechanism

ITERATIONS: Final = 8192
SALT_BYTES: Final = 32
"""Where there is no user to look like: what ``semel user add`` makes."""


class UnknownUsers:
    """Made-up credentials for one mechanism. ``users``: the real ones, whose salt and iterations they imitate."""

    def __init__(self, mechanism: ScramMechanism, secret: bytes, users: Mapping[str, ScramCredential]) -> None:
        self._mechanism = mechanism
        self._secret = secret
        shapes = Counter((known.iterations, len(known.salt)) for known in users.values())
        # Of equally many the smaller one, whatever the order of the users.
        usual = min(shapes, key=lambda shape: (-shapes[shape], shape), default=(ITERATIONS, SALT_BYTES))
        self._iterations, self._salt_bytes = usual

    def credential(self, user: str) -> ScramCredential:
        salt = self._derived("salt", user) * (self._salt_bytes // 64 + 1)
        # A stored key is the hash of a client's key. Of what this one would be the hash is not known.
        size_bytes = 32 if self._mechanism is ScramMechanism.SCRAM_SHA_256 else 64
        stored_key, server_key = self._derived("stored key", user), self._derived("server key", user)
        return ScramCredential(
            salt[: self._salt_bytes], stored_key[:size_bytes], server_key[:size_bytes], self._iterations
        )

    def _derived(self, purpose: str, user: str) -> bytes:
        return hmac.digest(self._secret, f"{self._mechanism.name}\0{purpose}\0{user}".encode(), "sha512")
