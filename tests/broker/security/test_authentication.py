"""The connections of a SASL listener, byte by byte: what is served before the proof, what after, and what never."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest

from semel.broker.security.authentication import LOGIN_MS_MAX
from semel.errors import ErrorCode
from semel.security.sasl.client import Scram
from semel.security.sasl.server import BlockingStep, Refused, Step
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.raw_client import RawClient, produce_request
from tests.broker.security.sasl_listener import ALICE, BOB, authenticate, handshake, log_in, sasl_broker

SERVED = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
PLAIN_ALICE = f"\0alice\0{ALICE}".encode()
SETTINGS = {
    "sasl_enabled_mechanisms": ",".join(SERVED),
    "sasl_plain_without_tls": True,
    "plain_sasl_jaas_config": 'PlainLoginModule required user_carol="carols";',
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with sasl_broker(**SETTINGS) as running:
        yield running


def metadata(client: RawClient) -> int:
    """An ordinary request; the number of brokers in its answer."""
    return len(client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[])).brokers)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_that_has_proven_who_it_is_is_served(client: RawClient, mechanism: str, version: int) -> None:
    assert client.call(ApiKey.API_VERSIONS, 3, _versions()).error_code == 0
    assert log_in(client, mechanism=mechanism, version=version).session_lifetime_ms == 0
    assert metadata(client) == 1


@pytest.mark.parametrize("token", [PLAIN_ALICE, b"\0carol\0carols", b"carol\0carol\0carols"])
def test_plain_knows_the_users_of_the_cluster_and_those_of_the_configuration(client: RawClient, token: bytes) -> None:
    assert handshake(client, "PLAIN") == SaslHandshakeResponse(0, SERVED)
    assert authenticate(client, token) == SaslAuthenticateResponse()
    assert metadata(client) == 1


def test_after_the_old_handshake_the_tokens_come_bare(client: RawClient) -> None:
    assert handshake(client, "SCRAM-SHA-256", version=0) == SaslHandshakeResponse(0, SERVED)
    scram = Scram("SCRAM-SHA-256", "alice", ALICE, "nonce")
    token: bytes | None = scram.first()
    while token is not None:
        client.send_frame(token)
        token = scram.answer(client.receive_frame())
    assert metadata(client) == 1


def test_a_bare_token_that_is_costly_is_answered_and_what_follows_it_too(client: RawClient) -> None:
    assert handshake(client, "PLAIN", version=0).error_code == 0
    client.send_frame(PLAIN_ALICE)
    sent = client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    assert client.receive_frame() == b""
    assert client.receive(ApiKey.API_VERSIONS, 0, sent).error_code == 0


def test_a_bare_token_that_is_wrong_closes_the_connection_without_a_word(client: RawClient) -> None:
    handshake(client, "PLAIN", version=0)
    client.send_frame(b"\0alice\0wrong")
    assert client.is_closed_by_broker()


def test_the_principal_of_a_connection_is_its_user(broker: Broker, client: RawClient) -> None:
    log_in(client, "bob", BOB)

    async def principals() -> set[str]:
        real = broker._broker
        assert real is not None
        assert real._running is not None
        return {connection.principal for connection in real._running.server.connections}

    assert "User:bob" in broker._call(principals())


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_and_an_unknown_user_are_told_the_same_and_closed(client: RawClient, user: str) -> None:
    answer = log_in(client, user, "wrong")
    assert answer == SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0nobody\0wrong", b"\0carol\0wrong"])
def test_plain_tells_the_same_too(client: RawClient, token: bytes) -> None:
    handshake(client, "PLAIN")
    text = "Authentication failed: Invalid username or password"
    assert authenticate(client, token) == SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_that_is_not_served_is_named_with_those_that_are(client: RawClient, version: int) -> None:
    answer = handshake(client, "GSSAPI", version)
    assert answer == SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, SERVED)
    assert client.is_closed_by_broker()


REQUESTS = [
    (ApiKey.METADATA, 12, MetadataRequest(topics=[])),
    (ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[CreatableTopic("stolen", 1, 1)])),
    (ApiKey.PRODUCE, 9, produce_request("stolen", None)),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest(None)),
]


@pytest.mark.parametrize("handshaken", [False, True])
@pytest.mark.parametrize(("key", "version", "message"), REQUESTS, ids=[key.name for key, _, _ in REQUESTS])
def test_cve_2017_12610_nothing_else_is_served_before_the_proof(
    broker: Broker, client: RawClient, handshaken: bool, key: ApiKey, version: int, message: object
) -> None:
    if handshaken:
        handshake(client, "SCRAM-SHA-512")
    client.send(key, version, message)
    assert client.is_closed_by_broker(), "without a byte of an answer"
    assert "stolen" not in broker._served.node.image.topics


@pytest.mark.parametrize("handshaken", [False, True])
def test_what_is_no_request_closes_the_connection(client: RawClient, handshaken: bool) -> None:
    if handshaken:
        handshake(client, "SCRAM-SHA-512")
    client.send_frame((999).to_bytes(2, "big") + bytes(100))
    assert client.is_closed_by_broker()


def test_a_token_before_the_handshake_and_a_second_handshake_close_the_connection(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(PLAIN_ALICE))
        assert client.is_closed_by_broker()
    with RawClient(broker.port) as client:
        handshake(client, "PLAIN")
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        assert client.is_closed_by_broker()


def test_an_unknown_version_of_api_versions_is_answered_and_of_sasl_closes(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.send_frame(b"\x00\x12\x00\x63" + bytes(4) + b"\xff\xff\x00")
        assert client.receive(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert log_in(client).error_code == 0
    with RawClient(broker.port) as client:
        client.send_frame(b"\x00\x11\x00\x02" + bytes(20))
        assert client.is_closed_by_broker()


def test_cve_2022_34917_a_stranger_has_small_frames_and_a_user_large_ones(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(broker.port) as client:
        client.socket.sendall((65_537).to_bytes(4, "big"))
        assert client.is_closed_by_broker()
        assert "a frame of 65537 bytes; the limit is 65536" in caplog.text
    with RawClient(broker.port) as client:
        log_in(client)
        client.send_frame(b"\x00\x12\x00\x00" + bytes(4) + b"\xff\xff" + bytes(100_000))
        assert client.receive(ApiKey.API_VERSIONS, 0).error_code == 0  # What follows the request is ignored.


def test_what_is_sent_right_behind_the_proof_is_served_as_the_user(client: RawClient) -> None:
    handshake(client, "PLAIN")
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(PLAIN_ALICE))
    sent = client.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    assert client.receive(ApiKey.SASL_AUTHENTICATE, 2).error_code == 0
    assert len(client.receive(ApiKey.METADATA, 12, sent).brokers) == 1


def test_what_is_sent_right_behind_a_wrong_password_is_not_served(client: RawClient) -> None:
    handshake(client, "PLAIN")
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0wrong"))
    client.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    assert client.receive(ApiKey.SASL_AUTHENTICATE, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed_by_broker()


def test_after_the_proof_a_handshake_is_answered_as_in_kafka(client: RawClient) -> None:
    log_in(client)
    assert handshake(client, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(client, PLAIN_ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert metadata(client) == 1


def test_a_client_that_leaves_in_the_middle_leaves_nothing(broker: Broker) -> None:
    for leave_after in ("handshake", "costly", "refused"):
        client = RawClient(broker.port)
        handshake(client, "PLAIN")
        if leave_after != "handshake":
            token = PLAIN_ALICE if leave_after == "costly" else b"\0alice\0wrong"
            client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
        client.socket.close()
    with RawClient(broker.port) as client:
        assert log_in(client).error_code == 0


def test_logins_are_counted(broker: Broker) -> None:
    assert broker._broker is not None
    metrics = broker._broker.metrics
    before = metrics.logins.value, metrics.logins_refused.value
    for password in (ALICE, ALICE, "wrong"):
        with RawClient(broker.port) as client:
            log_in(client, "alice", password)
    assert (metrics.logins.value - before[0], metrics.logins_refused.value - before[1]) == (2, 1)


def test_one_line_says_why_a_login_was_refused(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "semel.broker"):
        log_in(client, "alice", "wrong")
        assert client.is_closed_by_broker()
    (line,) = [record.getMessage() for record in caplog.records if "login" in record.getMessage()]
    assert "refused, SCRAM-SHA-512: wrong user or password" in line


def test_a_proof_that_fails_is_answered_after_a_delay() -> None:
    with sasl_broker(connection_failed_authentication_delay_ms=3_600_000) as broker, RawClient(broker.port) as client:
        handshake(client, "SCRAM-SHA-512")
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"nonsense"))
        assert not client.has_answer(within_s=0.2)
        broker.clock.advance(minutes=61)
        assert client.receive(ApiKey.SASL_AUTHENTICATE, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_broker()


@pytest.mark.parametrize("steps", [0, 1])
def test_a_client_that_takes_too_long_is_closed_and_a_user_is_not(steps: int) -> None:
    with sasl_broker() as broker, RawClient(broker.port) as slow, RawClient(broker.port) as known:
        log_in(known)
        if steps:
            handshake(slow, "SCRAM-SHA-512")
        else:
            slow.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        broker.clock.advance(seconds=LOGIN_MS_MAX / 1000 + 1)
        assert slow.is_closed_by_broker()
        assert metadata(known) == 1


class Broken:
    """A mechanism with a bug, at once or in its costly part."""

    user = None

    def __init__(self, *, is_costly: bool) -> None:
        self._is_costly = is_costly

    def step(self, token: bytes) -> Step:
        def fail() -> Refused:
            raise RuntimeError(f"it was given {token!r}")

        return BlockingStep(fail) if self._is_costly else fail()


@pytest.mark.parametrize("is_costly", [False, True])
def test_a_bug_of_a_mechanism_is_a_refusal_and_shows_no_secret(
    caplog: pytest.LogCaptureFixture, is_costly: bool
) -> None:
    with sasl_broker() as broker, RawClient(broker.port) as client:
        real = broker._broker
        assert real is not None
        assert real._running is not None
        begin = cast(Any, real._running.server._options["SASL_PLAINTEXT"].authenticate)
        begin.__self__.mechanisms["BROKEN"] = partial(Broken, is_costly=is_costly)
        handshake(client, "BROKEN")
        answer = authenticate(client, b"hunter2")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_broker()
        assert "BROKEN met a bug of the broker: RuntimeError in" in caplog.text
        assert "hunter2" not in caplog.text + str(answer)
        with RawClient(broker.port) as another:
            assert log_in(another).error_code == 0


# Re-authentication (KIP-368)


@pytest.fixture
def sessions() -> Iterator[Broker]:
    with sasl_broker(**SETTINGS, connections_max_reauth_ms=60_000) as running:
        yield running


def test_a_client_is_told_how_long_it_is_believed_and_may_prove_it_again(sessions: Broker) -> None:
    with RawClient(sessions.port) as client:
        assert log_in(client).session_lifetime_ms == 60_000
        for _ in range(3):
            sessions.clock.advance(seconds=50)
            assert metadata(client) == 1
            assert log_in(client).session_lifetime_ms == 60_000
        assert metadata(client) == 1


def test_after_its_time_only_the_proof_is_served(sessions: Broker) -> None:
    with RawClient(sessions.port) as late, RawClient(sessions.port) as again:
        log_in(late)
        log_in(again)
        sessions.clock.advance(seconds=61)
        late.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        assert late.is_closed_by_broker()
        assert log_in(again).error_code == 0
        assert metadata(again) == 1


def test_a_second_proof_of_another_user_closes_the_connection(sessions: Broker) -> None:
    with RawClient(sessions.port) as client:
        log_in(client)
        sessions.clock.advance(seconds=10)
        answer = log_in(client, "bob", BOB)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message is not None
        assert "User:alice" in answer.error_message
        assert client.is_closed_by_broker()


def test_a_second_proof_with_a_wrong_password_closes_the_connection(sessions: Broker) -> None:
    with RawClient(sessions.port) as client:
        log_in(client)
        sessions.clock.advance(seconds=10)
        assert "during re-authentication" in str(log_in(client, "alice", "wrong").error_message)
        assert client.is_closed_by_broker()


def test_a_second_proof_uses_the_mechanism_of_the_first(sessions: Broker) -> None:
    with RawClient(sessions.port) as client:
        log_in(client)
        sessions.clock.advance(seconds=10)
        assert handshake(client, "PLAIN").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert client.is_closed_by_broker()


def test_nothing_is_served_in_the_middle_of_a_second_proof(sessions: Broker) -> None:
    with RawClient(sessions.port) as client:
        log_in(client)
        sessions.clock.advance(seconds=10)
        handshake(client, "SCRAM-SHA-512")
        client.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        assert client.is_closed_by_broker()


def test_a_second_proof_within_a_second_and_an_old_handshake_are_not_taken(sessions: Broker) -> None:
    with RawClient(sessions.port) as client:
        log_in(client)
        assert handshake(client, "SCRAM-SHA-512").error_code == ErrorCode.ILLEGAL_SASL_STATE
        sessions.clock.advance(seconds=10)
        assert handshake(client, "SCRAM-SHA-512", version=0).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert metadata(client) == 1


def test_a_user_that_was_removed_keeps_its_connection_until_it_must_prove_it_again(sessions: Broker) -> None:
    from semel.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )

    with RawClient(sessions.port) as client:
        log_in(client)
        removal = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion("alice", 2)])
        (result,) = client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, removal).results
        assert result.error_code == 0
        assert metadata(client) == 1
        with RawClient(sessions.port) as another:
            assert log_in(another).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        sessions.clock.advance(seconds=10)
        assert log_in(client).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_broker()


def _versions() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="raw", client_software_version="1")
