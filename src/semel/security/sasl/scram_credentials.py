"""SCRAM credentials: what a broker stores for a password. A proof can be verified with it, but not computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from semel.security.sasl.scram import client_key, server_key, stored_key
from semel.wire.codes import ScramMechanism

ITERATIONS_MAX: Final = 16_384
"""Kafka's maximum: more would be an attack on the processor of the client that logs in."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The credential of a user for one SCRAM mechanism (RFC 5802). ``repr`` does not show its keys."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        kept = stored_key(mechanism, client_key(mechanism, salted_password))
        return cls(salt, kept, server_key(mechanism, salted_password), iterations)
