"""Made-up credentials for users that do not exist, so that a client cannot find out which users exist.

The law: salt and iterations, which a client receives before it has authenticated, are the same for an unknown user at
every attempt and on every broker of the cluster, and look like those of existing users. No password fits them.
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
"""``ITERATIONS`` and ``SALT_BYTES`` are used while no user exists; ``semel user add`` makes credentials like this."""


class UnknownUsers:
    """Made-up credentials for one mechanism.

    They have the most common number of iterations and salt length of the real ``users``.
    """

    def __init__(self, mechanism: ScramMechanism, secret: bytes, users: Mapping[str, ScramCredential]) -> None:
        self._mechanism = mechanism
        self._secret = secret
        shapes = Counter((known.iterations, len(known.salt)) for known in users.values())
        # Of equally common shapes the smaller one, so that the order of the users does not matter.
        usual = min(shapes, key=lambda shape: (-shapes[shape], shape), default=(ITERATIONS, SALT_BYTES))
        self._iterations, self._salt_bytes = usual

    def credential(self, user: str) -> ScramCredential:
        salt = self._derived("salt", user) * (self._salt_bytes // 64 + 1)
        # A stored key is the hash of a client's key. This one is made up, so no client's key with this hash is known.
        size_bytes = 32 if self._mechanism is ScramMechanism.SCRAM_SHA_256 else 64
        stored_key, server_key = self._derived("stored key", user), self._derived("server key", user)
        return ScramCredential(
            salt[: self._salt_bytes], stored_key[:size_bytes], server_key[:size_bytes], self._iterations
        )

    def _derived(self, purpose: str, user: str) -> bytes:
        return hmac.digest(self._secret, f"{self._mechanism.name}\0{purpose}\0{user}".encode(), "sha512")
