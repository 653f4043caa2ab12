"""DescribeUserScramCredentials (version 0): the mechanisms and iterations of users' passwords, never the passwords."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.metadata.security.user_changes import UserDescription, describe_users
from semel.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def describe_user_scram_credentials(
    node: Node, request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    described = describe_users(node.image, [user.name for user in message.users or ()])
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE, error_message=None, results=[_result(one) for one in described]
    )


def _result(description: UserDescription) -> DescribeUserScramCredentialsResult:
    refusal = description.refusal
    if refusal is not None:
        return DescribeUserScramCredentialsResult(description.user, refusal.code, refusal.message, [])
    infos = [CredentialInfo(mechanism, iterations) for mechanism, iterations in description.iterations.items()]
    return DescribeUserScramCredentialsResult(description.user, ErrorCode.NONE, None, infos)
