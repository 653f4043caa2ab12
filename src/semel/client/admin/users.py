"""Users with SCRAM passwords. A password never leaves this client: only its salted hash is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.results import Results
from semel.client.machine.admin.ask import CLUSTER, AnyBroker, Ask, Controller, Refusal, outcome
from semel.errors import ErrorCode, named
from semel.security.sasl.scram import ITERATIONS_MIN, salted_password
from semel.wire.apis import ApiKey
from semel.wire.codes import ScramMechanism
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from semel.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)

_SALT_BYTES: Final = 32


Credentials: TypeAlias = Mapping[ScramMechanism, int]
"""The mechanisms that a user can log in with, and how many iterations each password was hashed with."""


class Users:
    """``admin.users``: list, describe, set and delete SCRAM passwords."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list(self) -> dict[str, Credentials]:
        """Return every user that has a SCRAM password, with the mechanisms.

        for user, mechanisms in (await admin.users.list()).items(): print(user, list(mechanisms))
        """
        return await self._requests.one(_LIST, CLUSTER)

    async def describe(self, user: str) -> Credentials:
        """Return the mechanisms for which a user has a password; raises RESOURCE_NOT_FOUND if there are none.

        iterations = (await admin.users.describe("alice"))[ScramMechanism.SCRAM_SHA_512]
        """
        return await self._requests.one(_DESCRIBE, user)

    async def describe_many(self, users: Iterable[str]) -> Results[str, Credentials]:
        """Return the mechanisms of many users, as ``describe`` does for one.

        results = await admin.users.describe_many(["alice", "bob"])
        """
        return await self._requests.many(_DESCRIBE, users)

    async def upsert(
        self,
        user: str,
        password: str | bytes,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512,
        iterations: int = 8192,
        salt: bytes | None = None,
    ) -> None:
        """Set a user's password for one mechanism. To set it for both, call this twice.

        await admin.users.upsert("alice", "secret", mechanism=ScramMechanism.SCRAM_SHA_256)
        """
        if iterations < ITERATIONS_MIN:
            raise ValueError(f"{iterations} iterations for user {user!r}: Kafka takes {ITERATIONS_MIN} or more")
        salt = self._requests.random.randbytes(_SALT_BYTES) if salt is None else salt
        secret = password.encode() if isinstance(password, str) else password
        salted = salted_password(mechanism, secret, salt, iterations)
        await self._requests.one(_upsert(mechanism, iterations, salt, salted), user)

    async def delete(self, user: str, *, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512) -> None:
        """Delete a user's password for one mechanism; raises RESOURCE_NOT_FOUND if there is none.

        await admin.users.delete("alice")
        """
        await self._requests.one(_delete(mechanism), user)


def _user(name: str) -> str:
    return f"user {name!r}"


def _credentials(result: DescribeUserScramCredentialsResult) -> Credentials:
    return {ScramMechanism(entry.mechanism): entry.iterations for entry in result.credential_infos}


def _read(
    response: DescribeUserScramCredentialsResponse, users: Sequence[str], version: int
) -> list[tuple[str, Credentials | Refusal]]:
    if response.error_code != ErrorCode.NONE:
        return [(user, Refusal(named(response.error_code), response.error_message or "")) for user in users]
    return [
        (result.user, outcome(_credentials(result), result.error_code, result.error_message))
        for result in response.results
    ]


_DESCRIBE: Ask[str, Credentials] = Ask(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    target=lambda user: AnyBroker(),
    build=lambda users, version: DescribeUserScramCredentialsRequest([UserName(user) for user in users]),
    read=_read,
    name=_user,
)

_LIST: Ask[str, dict[str, Credentials]] = Ask(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    target=lambda key: AnyBroker(),
    build=lambda keys, version: DescribeUserScramCredentialsRequest(None),
    read=lambda response, keys, version: [
        (
            keys[0],
            outcome(
                {result.user: _credentials(result) for result in response.results},
                response.error_code,
                response.error_message,
            ),
        )
    ],
)


def _upsert(mechanism: ScramMechanism, iterations: int, salt: bytes, salted: bytes) -> Ask[str, None]:
    return _alter(
        lambda user: AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(user, mechanism, iterations, salt, salted)]
        )
    )


def _delete(mechanism: ScramMechanism) -> Ask[str, None]:
    return _alter(lambda user: AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(user, mechanism)]))


def _alter(build: Callable[[str], AlterUserScramCredentialsRequest]) -> Ask[str, None]:
    return Ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        target=lambda user: Controller(),
        build=lambda users, version: build(users[0]),
        read=lambda response, users, version: [
            (result.user, outcome(None, result.error_code, result.error_message)) for result in response.results
        ],
        name=_user,
        is_single=True,
    )
