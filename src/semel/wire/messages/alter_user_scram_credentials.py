"""AlterUserScramCredentials: set or remove SCRAM credentials. Mechanism 1 is SHA-256, 2 is SHA-512."""

from __future__ import annotations

from semel.wire.schema import BYTES, INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class ScramCredentialDeletion:
    name: str = field(STRING)
    mechanism: int = field(INT8)


@struct
class ScramCredentialUpsertion:
    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES)
    salted_password: bytes = field(BYTES)


@message(versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult:
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@message(versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = field(INT32)
    results: list[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))
