"""Pure decisions about users: AlterUserScramCredentials, and the answer to DescribeUserScramCredentials.

There is one result for each user, in the order in which they are first named; a refused user does not affect the
others. A user may be named once in a request, whatever the mechanism, as in Kafka. Error codes and messages are Apache
Kafka's; only an empty salt, which Kafka accepts, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.errors import ErrorCode
from semel.metadata.controller import MetadataDecision, Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.security.image import Credentials, SecurityChange, UserAltered, UserSecretMade, security_of
from semel.security.sasl.scram import ITERATIONS_MIN, MECHANISMS
from semel.security.sasl.scram_credentials import ITERATIONS_MAX, ScramCredential
from semel.wire.codes import ScramMechanism

SECRET_BYTES: Final = 32

_TWICE: Final = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NO_NAME: Final = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_UNKNOWN_MECHANISM: Final = Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW: Final = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY: Final = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_EMPTY: Final = Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Empty salt or password")
_NOT_THERE: Final = Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


@dataclass(frozen=True, slots=True)
class Deletion:
    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class Upsertion:
    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class UserResult:
    user: str
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class UserDescription:
    user: str
    iterations: Mapping[ScramMechanism, int] = field(default_factory=dict)
    """The number of iterations, by the mechanisms for which the user has a password."""
    refusal: Refusal | None = None


def alter_users(
    image: ClusterImage, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion], *, new_secret: bytes
) -> MetadataDecision[UserResult]:
    """AlterUserScramCredentials. ``new_secret`` becomes the cluster's secret if it has none yet (``unknown_users``)."""
    known = security_of(image)
    refusals: dict[str, Refusal | None] = {}
    altered: dict[str, UserAltered] = {}
    alterations: list[Deletion | Upsertion] = [*deletions, *upsertions]
    for alteration in alterations:
        user = alteration.user
        if user in refusals:
            # A user that is named twice is not changed. If the first item was refused, its own reason is kept.
            refusals[user] = refusals[user] or _TWICE
            altered.pop(user, None)
            continue
        before = known.users.get(user, {})
        refusal = refusals[user] = _refusal(alteration, before)
        if refusal is None:
            altered[user] = UserAltered(user, _after(alteration, before))
    changes: list[SecurityChange] = list(altered.values())
    if changes and known.user_secret is None:
        assert len(new_secret) >= SECRET_BYTES
        changes.append(UserSecretMade(new_secret))
    return MetadataDecision(tuple(changes), tuple(UserResult(user, refusal) for user, refusal in refusals.items()))


def describe_users(image: ClusterImage, names: Sequence[str]) -> list[UserDescription]:
    """Describe the users that are named, or all users if none is named."""
    users = security_of(image).users
    if not names:
        return [_description(user, users[user]) for user in sorted(users)]
    described: dict[str, UserDescription] = {}
    for user in names:
        if user in described:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            described[user] = UserDescription(user, refusal=Refusal(ErrorCode.DUPLICATE_RESOURCE, text))
        elif user in users:
            described[user] = _description(user, users[user])
        else:
            text = f"Attempt to describe a user credential that does not exist: {user}"
            described[user] = UserDescription(user, refusal=Refusal(ErrorCode.RESOURCE_NOT_FOUND, text))
    return list(described.values())


def _description(user: str, credentials: Credentials) -> UserDescription:
    return UserDescription(user, {mechanism: known.iterations for mechanism, known in sorted(credentials.items())})


def _refusal(alteration: Deletion | Upsertion, before: Credentials) -> Refusal | None:
    if not alteration.user:
        return _NO_NAME
    if alteration.mechanism not in MECHANISMS.values():
        return _UNKNOWN_MECHANISM
    if isinstance(alteration, Deletion):
        return None if alteration.mechanism in before else _NOT_THERE
    if alteration.iterations < ITERATIONS_MIN:
        return _TOO_FEW
    if alteration.iterations > ITERATIONS_MAX:
        return _TOO_MANY
    return None if alteration.salt and alteration.salted_password else _EMPTY


def _after(alteration: Deletion | Upsertion, before: Credentials) -> Credentials:
    if isinstance(alteration, Deletion):
        return {mechanism: kept for mechanism, kept in before.items() if mechanism is not alteration.mechanism}
    made = ScramCredential.of(alteration.mechanism, alteration.salt, alteration.salted_password, alteration.iterations)
    return {**before, alteration.mechanism: made}
