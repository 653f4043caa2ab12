"""Users that get passwords and lose them, and Kafka's refusals."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode
from semel.metadata.controller import Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.security.image import UserAltered, UserSecretMade
from semel.metadata.security.user_changes import (
    Deletion,
    Upsertion,
    UserDescription,
    UserResult,
    alter_users,
    describe_users,
)
from semel.security.sasl.scram_credentials import ScramCredential
from semel.wire.codes import ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SECRET = b"s" * 32
NOBODY = ClusterImage("cluster")
TWICE = "A user credential cannot be altered twice in the same request"


def upsertion(user: str = "alice", mechanism: ScramMechanism = SHA_512, iterations: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, b"salt", b"salted password")


def refused(code: ErrorCode, message: str, user: str = "alice") -> UserResult:
    return UserResult(user, Refusal(code, message))


def altered(image: ClusterImage, *wishes: Deletion | Upsertion) -> ClusterImage:
    decision = alter_users(
        image,
        [wish for wish in wishes if isinstance(wish, Deletion)],
        [wish for wish in wishes if isinstance(wish, Upsertion)],
        new_secret=SECRET,
    )
    assert all(result.refusal is None for result in decision.results)
    return image.apply(decision.changes)


def test_what_is_kept_of_a_password_is_not_the_password() -> None:
    decision = alter_users(NOBODY, [], [upsertion()], new_secret=SECRET)
    kept = ScramCredential.of(SHA_512, b"salt", b"salted password", 4096)
    assert decision.changes == (UserAltered("alice", {SHA_512: kept}), UserSecretMade(SECRET))
    assert decision.results == (UserResult("alice"),)
    assert b"salted password" not in (kept.salt, kept.stored_key, kept.server_key)


def test_the_secret_is_made_once_and_stays() -> None:
    image = altered(NOBODY, upsertion())
    decision = alter_users(image, [], [upsertion("bob")], new_secret=b"t" * 32)
    assert [type(change) for change in decision.changes] == [UserAltered]
    gone = altered(image, Deletion("alice", SHA_512))
    assert gone.security is not None
    assert (gone.security.users, gone.security.user_secret) == ({}, SECRET)


def test_nothing_is_committed_for_a_request_that_is_refused() -> None:
    assert alter_users(NOBODY, [], [upsertion("")], new_secret=SECRET).changes == ()


def test_a_user_has_a_password_for_each_mechanism() -> None:
    image = altered(altered(NOBODY, upsertion()), upsertion(mechanism=SHA_256, iterations=5000))
    assert describe_users(image, ["alice"]) == [UserDescription("alice", {SHA_256: 5000, SHA_512: 4096})]
    image = altered(image, Deletion("alice", SHA_512))
    assert describe_users(image, []) == [UserDescription("alice", {SHA_256: 5000})]


@pytest.mark.parametrize(
    ("wish", "code", "message"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (Deletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (
            upsertion(mechanism=ScramMechanism.UNKNOWN),
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "Unknown SCRAM mechanism",
        ),
        (Deletion("alice", ScramMechanism.UNKNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            Deletion("alice", SHA_256),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        (
            Upsertion("alice", SHA_256, 4096, b"", b"salted"),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Empty salt or password",
        ),
    ],
)
def test_one_user_that_is_refused_leaves_the_others_alone(
    wish: Deletion | Upsertion, code: ErrorCode, message: str
) -> None:
    deletions = [wish] if isinstance(wish, Deletion) else []
    upsertions = [wish] if isinstance(wish, Upsertion) else []
    decision = alter_users(NOBODY, deletions, [*upsertions, upsertion("bob")], new_secret=SECRET)
    assert decision.results == (refused(code, message, wish.user), UserResult("bob"))
    assert [change.name for change in decision.changes if isinstance(change, UserAltered)] == ["bob"]


def test_iterations_at_the_limits_are_taken() -> None:
    altered(NOBODY, upsertion(iterations=4096), upsertion("bob", iterations=16_384))


def test_a_user_is_altered_once_in_a_request_whatever_the_mechanism() -> None:
    image = altered(NOBODY, upsertion())
    for deletions, upsertions in (
        ([], [upsertion(), upsertion(mechanism=SHA_256)]),
        ([Deletion("alice", SHA_512)], [upsertion()]),
        ([Deletion("alice", SHA_512)] * 2, []),
        ([], [upsertion()] * 3),
    ):
        decision = alter_users(image, deletions, upsertions, new_secret=SECRET)
        assert decision.results == (refused(ErrorCode.DUPLICATE_RESOURCE, TWICE),)
        assert decision.changes == ()


def test_describing_an_unknown_user_or_one_twice_is_an_error_of_that_user() -> None:
    image = altered(NOBODY, upsertion(), upsertion("bob"))
    known, unknown, twice = describe_users(image, ["alice", "nobody", "bob", "bob"])
    assert known == UserDescription("alice", {SHA_512: 4096})
    assert unknown.refusal == Refusal(
        ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: nobody"
    )
    assert twice.refusal == Refusal(
        ErrorCode.DUPLICATE_RESOURCE,
        "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
    )


def test_what_is_asked_for_does_not_show() -> None:
    assert "salt" not in repr(upsertion())
    assert "ssss" not in repr(altered(NOBODY, upsertion()))
