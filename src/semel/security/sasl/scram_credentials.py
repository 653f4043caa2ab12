"""What a broker keeps of a password: enough to check a proof of it, too little to log in with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from semel.security.sasl.scram import client_key, server_key, stored_key
from semel.wire.codes import ScramMechanism

ITERATIONS_MAX: Final = 16_384
"""Kafka's: more would be an attack on the processor of the client that logs in."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """RFC 5802. Keys do not show in ``repr``."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        kept = stored_key(mechanism, client_key(mechanism, salted_password))
        return cls(salt, kept, server_key(mechanism, salted_password), iterations)
