"""AlterUserScramCredentials (version 0): changes credentials, by the rules of ``semel.metadata.security.user_changes``.

If a user is changed or removed, its connections stay open until they must authenticate again, as in Kafka.
"""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.security_change import change_security
from semel.errors import ErrorCode
from semel.metadata.controller import Refusal
from semel.metadata.security.user_changes import SECRET_BYTES, Deletion, Upsertion, UserResult, alter_users
from semel.wire.codes import ScramMechanism
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def alter_user_scram_credentials(
    node: Node, request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    deletions = [Deletion(one.name, ScramMechanism(one.mechanism)) for one in message.deletions]
    upsertions = [
        Upsertion(one.name, ScramMechanism(one.mechanism), one.iterations, bytes(one.salt), bytes(one.salted_password))
        for one in message.upsertions
    ]
    new_secret = node.random.randbytes(SECRET_BYTES)

    def refused(refusal: Refusal) -> list[UserResult]:
        names = dict.fromkeys([*(one.user for one in deletions), *(one.user for one in upsertions)])
        return [UserResult(name, refusal) for name in names]

    results = await change_security(
        node, lambda image: alter_users(image, deletions, upsertions, new_secret=new_secret), refused=refused
    )
    return AlterUserScramCredentialsResponse(results=[_result(result) for result in results])


def _result(result: UserResult) -> AlterUserScramCredentialsResult:
    if result.refusal is None:
        return AlterUserScramCredentialsResult(result.user, ErrorCode.NONE, None)
    return AlterUserScramCredentialsResult(result.user, result.refusal.code, result.refusal.message)
