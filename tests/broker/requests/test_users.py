"""Users with SCRAM passwords: they are made, told of and removed, and they are still there after a kill."""

from __future__ import annotations

import pytest

from semel import blocking
from semel.admin import ScramMechanism
from semel.errors import ErrorCode, KafkaError
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from tests.broker.raw_client import RawClient


def test_users_get_passwords_and_lose_them(broker: Broker) -> None:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.users.list() == {}
        admin.users.upsert("alice", "secret")
        admin.users.upsert("alice", "secret", mechanism=ScramMechanism.SCRAM_SHA_256, iterations=4096)
        admin.users.upsert("ünï/../=code", "secret")
        both = {ScramMechanism.SCRAM_SHA_512: 8192, ScramMechanism.SCRAM_SHA_256: 4096}
        assert admin.users.list() == {"alice": both, "ünï/../=code": {ScramMechanism.SCRAM_SHA_512: 8192}}
        broker.restart(kill=True)
        assert admin.users.describe("alice") == both
        admin.users.delete("alice")
        assert admin.users.describe("alice") == {ScramMechanism.SCRAM_SHA_256: 4096}
        with pytest.raises(KafkaError) as gone:
            admin.users.delete("alice")
        assert gone.value.code is ErrorCode.RESOURCE_NOT_FOUND
        admin.users.delete("alice", mechanism=ScramMechanism.SCRAM_SHA_256)
        with pytest.raises(KafkaError) as unknown:
            admin.users.describe("alice")
        assert unknown.value.code is ErrorCode.RESOURCE_NOT_FOUND


def test_a_mechanism_that_kafka_does_not_know_is_refused(client: RawClient) -> None:
    upsertion = ScramCredentialUpsertion("alice", 7, 4096, b"salt", b"salted")
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    answer = client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    assert answer.results == [
        AlterUserScramCredentialsResult("alice", ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    ]
