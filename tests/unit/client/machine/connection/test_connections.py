"""Connections: negotiating, choosing, limiting, timing out, coming back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from semel.client.config.common import ClientConfig
from semel.client.machine.connection.actions import Connect, Disconnect, FetchToken, Send
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import COORDINATION, DATA, Connections, Route
from semel.client.security.config import SecurityConfig
from semel.errors import AuthorizationFailed, ErrorCode, UnsupportedVersion
from semel.security.security_protocol import SecurityProtocol
from semel.types import Address
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import decode_request_header, encode_response
from semel.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from semel.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from semel.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeResponse

ADDRESSES = {node_id: Address(f"node-{node_id}", 9092) for node_id in (1, 2, 3)}
SERVED = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]


class Net:
    """Connections, and what they wanted done."""

    def __init__(self, *, in_flight_max: int = 5, seed: int = 0, **settings: Any) -> None:
        self.connections = Connections(ClientConfig(**settings), Random(seed), in_flight_max=in_flight_max)
        self.connections.set_addresses(ADDRESSES, 0.0)
        self.now_ms = 0.0
        self.answers: list[object] = []
        self.losses: list[str] = []

    def actions(self) -> list[Any]:
        return self.connections.take_actions()

    def ready(self, node_id: int, lane: int = DATA) -> None:
        """Connect to a node and let it say what it can do."""
        assert not self.connections.ready(Route(node_id, lane), self.now_ms)
        (connect,) = self.actions()
        assert isinstance(connect, Connect)
        self.connections.connected(connect.connection, self.now_ms)
        self.negotiated(connect.connection)
        assert self.connections.ready(Route(node_id, lane), self.now_ms)

    def negotiated(self, connection: int, response: ApiVersionsResponse | None = None, version: int = 4) -> None:
        (send,) = self.actions()
        assert isinstance(send, Send)
        correlation_id = header_of(send)[2]
        response = response or ApiVersionsResponse(api_keys=SERVED)
        self.receive(connection, correlation_id, ApiKey.API_VERSIONS, version, response)

    def receive(self, connection: int, correlation_id: int, api_key: ApiKey, version: int, response: object) -> None:
        frame = encode_response(correlation_id, APIS[api_key], version, response)
        self.connections.received(connection, bytes(frame[4:]), self.now_ms)

    def ask(self, node_id: int, **limits: Any) -> Send:
        call = Call(
            ApiKey.METADATA,
            build=lambda version: MetadataRequest(topics=[]),
            answered=lambda response, version, now_ms: self.answers.append(response),
            lost=lambda reason, now_ms: self.losses.append(reason),
            **limits,
        )
        self.connections.send(Route(node_id), call, self.now_ms)
        (send,) = self.actions()
        assert isinstance(send, Send)
        return send

    def answer(self, send: Send, throttle_time_ms: int = 0) -> None:
        _, version, correlation_id, _ = header_of(send)
        brokers = [MetadataResponseBroker(1, "node-1", 9092)]
        response = MetadataResponse(brokers=brokers, throttle_time_ms=throttle_time_ms)
        self.receive(send.connection, correlation_id, ApiKey.METADATA, version, response)

    def poll(self, ms: float) -> list[Any]:
        self.now_ms += ms
        self.connections.poll(self.now_ms)
        return self.actions()


def header_of(send: Send) -> tuple[int, int, int, str | None]:
    return tuple(decode_request_header(b"".join(map(bytes, send.parts))[4:])[0])  # type: ignore[return-value]


def test_nobody_is_connected_to_before_somebody_asks() -> None:
    net = Net()
    assert net.poll(1_000) == []
    assert not net.connections.ready(Route(2), net.now_ms)
    assert net.actions() == [Connect(1, "node-2", 9092)]


def test_the_first_request_is_api_versions_and_it_says_who_asks() -> None:
    net = Net()
    net.connections.ready(Route(1), 0.0)
    net.actions()
    net.connections.connected(1, 0.0)
    (send,) = net.actions()
    assert header_of(send) == (ApiKey.API_VERSIONS, 4, 0, "semel")


def test_a_broker_that_does_not_know_our_api_versions_is_asked_in_its_own() -> None:
    net = Net()
    net.connections.ready(Route(1), 0.0)
    net.actions()
    net.connections.connected(1, 0.0)
    old = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(ApiKey.API_VERSIONS, 0, 2)]
    )
    net.negotiated(1, old, version=0)
    (send,) = net.connections.take_actions()
    assert isinstance(send, Send)
    assert header_of(send)[1] == 2
    net.receive(1, header_of(send)[2], ApiKey.API_VERSIONS, 2, ApiVersionsResponse(api_keys=SERVED))
    assert net.connections.ready(Route(1), 0.0)


def test_the_newest_finalized_features_count() -> None:
    net = Net()
    for node_id, epoch, level in ((1, 5, 2), (2, 4, 1)):
        net.connections.ready(Route(node_id), 0.0)
        (connect,) = net.actions()
        net.connections.connected(connect.connection, 0.0)
        feature = FinalizedFeatureKey("transaction.version", level, 0)
        net.negotiated(
            connect.connection,
            ApiVersionsResponse(api_keys=SERVED, finalized_features_epoch=epoch, finalized_features=[feature]),
        )
    assert net.connections.features == {"transaction.version": 2}


def test_the_newest_version_that_both_sides_speak_is_used() -> None:
    net = Net()
    net.ready(1)
    assert header_of(net.ask(1))[1] == 13
    assert header_of(net.ask(1, version_max=7))[1] == 7


def test_a_broker_without_a_common_version_is_refused_by_name() -> None:
    net = Net()
    net.ready(1)
    with pytest.raises(UnsupportedVersion, match=r"node-1:9092 serves versions 0 to 13 of Metadata.*from 14 to 13"):
        net.ask(1, version_min=14)


def test_the_least_loaded_broker_is_asked() -> None:
    net = Net()
    for node_id in (1, 2, 3):
        net.ready(node_id)
    net.ask(1)
    net.ask(1)
    net.ask(3)
    assert net.connections.least_loaded(net.now_ms) == Route(2)
    net.ask(2)
    net.ask(2)
    assert net.connections.least_loaded(net.now_ms) == Route(3)


def test_with_nobody_ready_one_broker_is_connected_to_and_no_second_one() -> None:
    net = Net()
    assert net.connections.least_loaded(0.0) is None
    assert len(net.actions()) == 1
    assert net.connections.least_loaded(0.0) is None
    assert net.actions() == []


def test_a_broker_that_refuses_gives_way_to_another_one() -> None:
    net = Net()
    tried = set()
    for _ in range(3):
        assert net.connections.least_loaded(net.now_ms) is None
        (connect,) = net.actions()
        tried.add(connect.host)
        net.connections.disconnected(connect.connection, "refused", net.now_ms)
    assert tried == {"node-1", "node-2", "node-3"}


def test_no_more_requests_are_under_way_than_allowed() -> None:
    net = Net(in_flight_max=2)
    net.ready(1)
    first = net.ask(1)
    net.ask(1)
    assert not net.connections.ready(Route(1), net.now_ms)
    net.answer(first)
    assert net.connections.ready(Route(1), net.now_ms)


def test_a_request_that_is_not_answered_within_request_timeout_ms_takes_its_connection_with_it() -> None:
    net = Net(request_timeout_ms=5_000)
    net.ready(1)
    first = net.ask(1)
    net.now_ms += 2_000
    net.ask(1)
    assert net.connections.next_deadline_ms(net.now_ms) == 5_000
    assert net.poll(2_999) == []
    assert net.poll(1) == [Disconnect(first.connection)]
    assert len(net.losses) == 2
    assert "Metadata was not answered within 5000 ms" in net.losses[0]


def test_reconnecting_backs_off_and_forgets_it_once_it_worked() -> None:
    net = Net(reconnect_backoff_ms=50, reconnect_backoff_max_ms=300)
    pauses = []
    for _ in range(5):
        assert not net.connections.ready(Route(1), net.now_ms)
        (connect,) = net.actions()
        net.connections.disconnected(connect.connection, "refused", net.now_ms)
        before = net.now_ms
        net.now_ms = net.connections.next_deadline_ms(before)
        pauses.append(net.now_ms - before)
        assert not net.connections.ready(Route(1), net.now_ms - 1)
        assert net.actions() == []
    for pause, expected in zip(pauses, (50, 100, 200, 300, 300), strict=True):
        assert 0.8 * expected <= pause <= min(1.2 * expected, 300)
    net.ready(1)
    net.connections.disconnected(6, "lost", net.now_ms)
    assert net.connections.next_deadline_ms(net.now_ms) - net.now_ms <= 60


def test_an_outage_is_one_warning_however_often_it_is_tried_and_one_line_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    net = Net(reconnect_backoff_ms=50, reconnect_backoff_max_ms=300)
    for _ in range(5):
        assert not net.connections.ready(Route(1), net.now_ms)
        (connect,) = net.actions()
        net.connections.disconnected(connect.connection, "refused", net.now_ms)
        net.now_ms = net.connections.next_deadline_ms(net.now_ms)
    lasted_s = net.now_ms / 1000
    net.ready(1)
    assert caplog.messages == [
        "lost the connection to broker node-1:9092: refused",
        f"broker node-1:9092 answers again after {lasted_s:.1f} s",
    ]


def test_all_connections_to_a_broker_are_lost_in_one_outage(caplog: pytest.LogCaptureFixture) -> None:
    net = Net()
    net.ready(1)
    net.ready(1, COORDINATION)
    for number in (1, 2):
        net.connections.disconnected(number, "gone", net.now_ms)
    assert caplog.messages == ["lost the connection to broker node-1:9092: gone"]
    net.now_ms += 1_000
    net.ready(1)
    net.ready(1, COORDINATION)
    assert len(caplog.messages) == 2


def test_bootstrap_servers_that_are_tried_while_all_brokers_are_away_are_no_other_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = Net()
    net.ready(1)
    net.connections.disconnected(1, "gone", net.now_ms)
    net.connections.set_addresses({-1: Address("localhost", 9092)}, net.now_ms)
    assert not net.connections.ready(Route(-1), net.now_ms)
    (connect,) = net.actions()
    net.connections.disconnected(connect.connection, "refused", net.now_ms)
    assert caplog.messages == ["lost the connection to broker node-1:9092: gone"]
    # One that could not be reached in the first place is told.
    first = Net()
    first.connections.set_addresses({-1: Address("localhost", 9092)}, 0.0)
    assert not first.connections.ready(Route(-1), 0.0)
    (connect,) = first.actions()
    first.connections.disconnected(connect.connection, "refused", 0.0)
    assert caplog.messages[1:] == ["lost the connection to broker localhost:9092: refused"]


def test_connecting_that_takes_too_long_is_given_up() -> None:
    net = Net(socket_connection_setup_timeout_ms=1_000)
    net.connections.ready(Route(1), 0.0)
    (connect,) = net.actions()
    deadline_ms = net.connections.next_deadline_ms(0.0)
    assert 800 <= deadline_ms <= 1_200
    assert net.poll(deadline_ms) == [Disconnect(connect.connection)]


def test_an_idle_connection_is_closed_and_opened_again_without_a_pause() -> None:
    net = Net(connections_max_idle_ms=60_000)
    net.ready(1)
    assert net.poll(59_999) == []
    assert net.poll(1) == [Disconnect(1)]
    assert not net.connections.ready(Route(1), net.now_ms)
    assert net.actions() == [Connect(2, "node-1", 9092)]


def test_an_answer_that_comes_twice_is_passed_over() -> None:
    net = Net()
    net.ready(1)
    first = net.ask(1)
    second = net.ask(1)
    net.answer(first)
    net.answer(first)
    net.answer(second)
    assert len(net.answers) == 2
    assert net.losses == []


def test_an_answer_that_skips_one_ends_the_connection() -> None:
    net = Net()
    net.ready(1)
    net.ask(1)
    second = net.ask(1)
    net.answer(second)
    assert net.answers == []
    assert len(net.losses) == 2
    assert net.actions() == [Disconnect(1)]


def test_a_broker_that_asks_for_patience_gets_it() -> None:
    net = Net()
    net.ready(1)
    net.answer(net.ask(1), throttle_time_ms=700)
    assert not net.connections.ready(Route(1), 699)
    assert net.connections.next_deadline_ms(1.0) == 700
    assert net.connections.ready(Route(1), 700)


def test_the_connection_to_a_bootstrap_server_is_kept_when_its_number_is_known() -> None:
    net = Net()
    net.connections.set_addresses({-1: Address("node-1", 9092)}, 0.0)
    net.ready(-1)
    net.connections.set_addresses(ADDRESSES, 0.0)
    assert net.connections.ready(Route(1), 0.0)
    assert net.actions() == []


def test_a_broker_that_moved_is_connected_to_where_it_is() -> None:
    net = Net()
    net.ready(1)
    net.ask(1)
    net.connections.set_addresses({1: Address("elsewhere", 9092)}, 0.0)
    assert net.actions() == [Disconnect(1)]
    assert len(net.losses) == 1
    assert not net.connections.ready(Route(1), 0.0)
    assert net.actions() == [Connect(2, "elsewhere", 9092)]


def test_a_broker_that_is_gone_may_still_answer_what_it_was_asked() -> None:
    net = Net()
    net.ready(1)
    request = net.ask(1)
    net.connections.set_addresses({2: ADDRESSES[2]}, 0.0)
    assert net.poll(1) == []
    net.answer(request)
    assert len(net.answers) == 1
    assert net.poll(1) == [Disconnect(1)]


def test_lanes_are_connections_of_their_own() -> None:
    net = Net()
    net.ready(1)
    assert not net.connections.ready(Route(1, COORDINATION), 0.0)
    assert net.actions() == [Connect(2, "node-1", 9092)]


def test_what_comes_from_a_connection_that_is_over_is_nobody_s() -> None:
    net = Net()
    net.ready(1)
    request = net.ask(1)
    net.connections.disconnected(1, "lost", 0.0)
    net.answer(request)
    net.connections.connected(1, 0.0)
    net.connections.disconnected(1, "lost again", 0.0)
    assert net.answers == []
    assert len(net.losses) == 1


# Authentication, and again when the session of a broker ends (KIP-368)

PLAIN = SecurityConfig(
    security_protocol=SecurityProtocol.SASL_PLAINTEXT,
    sasl_mechanism="PLAIN",
    sasl_username="alice",
    sasl_password="secret",
)


def proven(net: Net, *, lifetime_ms: int = 0, code: int = 0) -> None:
    """Answer a handshake and a token that were sent."""
    for key, version, response in (
        (ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeResponse(0, ["PLAIN"])),
        (ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateResponse(code, None, b"", lifetime_ms)),
    ):
        (send,) = net.actions()
        api_key, sent_version, correlation_id, _ = header_of(send)
        assert (api_key, sent_version) == (key, version)
        net.receive(send.connection, correlation_id, key, version, response)


def session(*, lifetime_ms: int) -> Net:
    """A connection that is trusted for so long, and was used."""
    net = Net(security=PLAIN)
    net.connections.ready(Route(1), 0.0)
    (connect,) = net.actions()
    net.connections.connected(connect.connection, 0.0)
    net.negotiated(connect.connection)
    proven(net, lifetime_ms=lifetime_ms)
    assert net.connections.ready(Route(1), 0.0)
    net.now_ms = 1.0
    net.answer(net.ask(1))
    return net


def test_a_client_proves_again_who_it_is_behind_what_is_under_way() -> None:
    net = session(lifetime_ms=10_000)
    first, second = net.ask(1), net.ask(1)
    assert net.connections.next_deadline_ms(1.0) == 8_500
    assert net.poll(8_498) == []
    net.now_ms = 8_500.0
    net.connections.poll(net.now_ms)
    (handshake,) = net.connections.take_actions()
    assert isinstance(handshake, Send)
    assert not net.connections.ready(Route(1), net.now_ms), "nothing else is sent meanwhile"
    # What was asked before is answered first.
    net.answer(first)
    net.answer(second)
    assert len(net.answers) == 3
    net.connections._actions.append(handshake)
    proven(net, lifetime_ms=10_000)
    assert net.connections.ready(Route(1), net.now_ms)
    assert net.losses == []
    net.answer(net.ask(1))
    assert net.connections.next_deadline_ms(net.now_ms) == 8_500 + 8_500


def test_a_second_proof_that_is_refused_ends_the_client() -> None:
    net = session(lifetime_ms=10_000)
    net.now_ms = 9_000.0
    net.connections.poll(net.now_ms)
    proven(net, code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    with pytest.raises(AuthorizationFailed):
        net.connections.poll(net.now_ms)


def test_a_broker_that_does_not_answer_the_second_proof_is_given_up_in_time() -> None:
    net = session(lifetime_ms=10_000)
    net.now_ms = 9_000.0
    net.connections.poll(net.now_ms)
    net.actions()
    assert net.connections.next_deadline_ms(net.now_ms) == 9_000 + 30_000
    assert isinstance(net.poll(30_000)[0], Disconnect)


def test_a_connection_that_was_not_used_is_ended_and_not_kept_alive_by_proofs() -> None:
    net = session(lifetime_ms=10_000)
    net.now_ms = 8_500.0
    net.connections.poll(net.now_ms)
    proven(net, lifetime_ms=10_000)
    assert net.poll(8_500) == [Disconnect(1)]


def test_no_second_proof_within_a_second() -> None:
    net = session(lifetime_ms=500)
    assert net.connections.next_deadline_ms(1.0) == 1_100


# Tokens, which the driver fetches


def provider() -> str:
    raise AssertionError("the machine itself never calls it")


BEARER = SecurityConfig(
    security_protocol=SecurityProtocol.SASL_PLAINTEXT,
    sasl_mechanism="OAUTHBEARER",
    sasl_oauthbearer_token_provider=provider,
)


def auth_bytes(send: Send) -> bytes:
    return b"".join(map(bytes, send.parts))


def bearer_session(*, lifetime_ms: int) -> Net:
    """A connection that a token was sent on, and that was used."""
    net = Net(security=BEARER)
    net.connections.ready(Route(1), 0.0)
    assert net.actions() == [FetchToken(1, provider)]
    net.connections.token_received(1, "first", 0.0)
    (connect,) = net.actions()
    assert connect == Connect(1, "node-1", 9092)
    net.connections.connected(1, 0.0)
    net.negotiated(1)
    bearer_proven(net, "first", lifetime_ms=lifetime_ms)
    net.now_ms = 1.0
    net.answer(net.ask(1))
    return net


def bearer_proven(net: Net, token: str, *, lifetime_ms: int = 0) -> None:
    (handshake,) = net.actions()
    net.receive(1, header_of(handshake)[2], ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeResponse(0, ["OAUTHBEARER"]))
    (sent,) = net.actions()
    assert f"auth=Bearer {token}\x01".encode() in auth_bytes(sent)
    answer = SaslAuthenticateResponse(0, None, b"", lifetime_ms)
    net.receive(1, header_of(sent)[2], ApiKey.SASL_AUTHENTICATE, 2, answer)
    assert net.connections.ready(Route(1), net.now_ms)


def test_a_token_is_there_before_the_broker_is_connected_to() -> None:
    """A broker gives a connection little time, and a token may take long."""
    bearer_session(lifetime_ms=0)


def test_a_token_that_could_not_be_had_is_asked_for_again_after_the_pause() -> None:
    net = Net(security=BEARER)
    net.connections.ready(Route(1), 0.0)
    net.actions()
    net.connections.token_failed(1, "the authorization server is away", 0.0)
    net.actions()
    assert net.connections.is_unreachable(Route(1))
    due_ms = net.connections.next_deadline_ms(0.0)
    assert 0 < due_ms < 1_000
    assert not net.connections.ready(Route(1), due_ms)
    assert net.actions() == [FetchToken(2, provider)]


def test_a_token_that_never_comes_is_given_up_in_time_and_late_it_is_passed_over() -> None:
    net = Net(security=BEARER)
    net.connections.ready(Route(1), 0.0)
    net.actions()
    assert net.connections.next_deadline_ms(0.0) == 30_000
    assert net.poll(30_000) == [Disconnect(1)]
    net.connections.token_received(1, "late", net.now_ms)
    net.connections.token_failed(1, "late", net.now_ms)
    assert net.actions() == []


def test_a_session_is_renewed_with_a_fresh_token_and_used_until_it_is_there() -> None:
    net = bearer_session(lifetime_ms=10_000)
    assert net.poll(8_499) == [FetchToken(1, provider)]
    assert net.connections.ready(Route(1), net.now_ms)
    net.answer(net.ask(1))
    net.connections.token_received(1, "second", net.now_ms)
    bearer_proven(net, "second", lifetime_ms=10_000)
    assert net.connections.next_deadline_ms(net.now_ms) == 8_500 + 8_500


def test_a_session_that_cannot_be_renewed_yet_is_tried_again_and_ends_in_time() -> None:
    net = bearer_session(lifetime_ms=10_000)
    waiting = net.ask(1)
    assert net.poll(8_499) == [FetchToken(1, provider)]
    net.connections.token_failed(1, "the authorization server is away", net.now_ms)
    assert net.connections.next_deadline_ms(net.now_ms) == 9_500
    assert net.poll(1_000) == [FetchToken(1, provider)]
    assert net.losses == []
    assert net.poll(500) == [Disconnect(1)]
    assert len(net.losses) == 1
    net.answer(waiting)
    assert len(net.answers) == 1
