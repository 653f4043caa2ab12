"""AlterUserScramCredentials and DescribeUserScramCredentials: the same requests to Apache Kafka and to Semel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from semel.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.raw_client import RawClient
from tools.brokers import apache_kafka
from tools.patience import PATIENCE_S
from tools.server import running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

Wish: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion
Answer: TypeAlias = dict[str, tuple[int, str, list[tuple[int, int]]]]


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"salted")


def deletion(user: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(user, mechanism)


REQUESTS: list[list[Wish]] = [
    [upsertion("alice"), upsertion("alice", 2)],
    [upsertion("alice")],
    [deletion("alice"), upsertion("alice", 2)],
    [deletion("alice", 2), upsertion("bob", 2, 16_384)],
    [deletion("alice"), deletion("alice")],
    [deletion(""), upsertion("")],
    [upsertion(""), upsertion("carol")],
    [upsertion("x", 7), upsertion("x", 1), upsertion("y", 1, 4095), upsertion("z", 2, 16_385), deletion("w", 0)],
    [upsertion("alice", 2, 8192), deletion("carol")],
    [],
]
QUESTIONS: list[list[str] | None] = [None, [], ["alice"], ["alice", "nobody", "bob", "bob"], [""]]


def altered(client: RawClient, wishes: Sequence[Wish]) -> Answer:
    request = AlterUserScramCredentialsRequest(
        deletions=[wish for wish in wishes if isinstance(wish, ScramCredentialDeletion)],
        upsertions=[wish for wish in wishes if isinstance(wish, ScramCredentialUpsertion)],
    )
    answer = client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {result.user: (result.error_code, result.error_message or "", []) for result in answer.results}


def described(client: RawClient, users: list[str] | None) -> Answer:
    request = DescribeUserScramCredentialsRequest(None if users is None else [UserName(user) for user in users])
    answer = client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert answer.error_code == 0
    return {
        result.user: (
            result.error_code,
            result.error_message or "",
            sorted((info.mechanism, info.iterations) for info in result.credential_infos),
        )
        for result in answer.results
    }


def answers(port: int) -> list[Answer]:
    with RawClient(port) as client:
        told = [altered(client, wishes) for wishes in REQUESTS]
        # Kafka's controller has it at once, the broker that is asked a moment later.
        until = time.monotonic() + PATIENCE_S
        while described(client, ["alice"])["alice"][2] != [(1, 4096), (2, 8192)] and time.monotonic() < until:
            time.sleep(0.05)
        return told + [described(client, users) for users in QUESTIONS]


def test_both_give_the_same_answers(tmp_path: Path) -> None:
    server = apache_kafka(tmp_path / "kafka", heap="512m")
    with running(server), Broker() as broker:
        kafka, semel = answers(server.launch.port), answers(broker.port)
    assert semel == kafka
