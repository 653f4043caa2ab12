"""DescribeUserScramCredentials: the mechanisms that users have credentials for. Null ``users`` mean all users."""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class UserName:
    name: str = field(STRING)


@message(versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field(array(UserName), nullable=0)


@struct
class CredentialInfo:
    mechanism: int = field(INT8)
    iterations: int = field(INT32)


@struct
class DescribeUserScramCredentialsResult:
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    credential_infos: list[CredentialInfo] = field(array(CredentialInfo))


@message(versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    results: list[DescribeUserScramCredentialsResult] = field(array(DescribeUserScramCredentialsResult))
