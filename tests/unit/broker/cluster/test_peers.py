"""How a broker asks others: in order, each answered exactly once, nothing sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from semel.broker.cluster.connection_names import ConnectionName
from semel.broker.cluster.peers import ANSWER_SECONDS_MAX, BACKOFF_MS_MAX, Peers, Purpose
from semel.metadata.image import Broker, BrokerRegistered, BrokerUnregistered, ClusterImage, Endpoint
from semel.net.network import Listener
from semel.security.sasl.client import Plain
from semel.testing.simulation import Simulation, run
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_request_header, encode_response
from semel.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from semel.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from semel.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeResponse

HERE, THERE, PORT = 1, 2, 9093


class AnsweringBroker:
    """Answers ApiVersions, and ListTransactions with the filter that it was asked for, unless told to be silent."""

    def __init__(self, simulation: Simulation, name: str = "there", *, versions_max: int = 2) -> None:
        self.host = simulation.host(name)
        self.names: list[ConnectionName] = []
        self.asked: list[tuple[int, str]] = []
        self.is_silent = False
        self.versions_max = versions_max
        self.connections: list[_Connection] = []
        self.session_ms = 0
        self.proofs = 0
        self.asked_versions = 0
        self.still_takes: int | None = None
        """How many connections the machine of a process that is gone takes before it refuses them."""
        self._listener: Listener | None = None

    async def listen(self, port: int = PORT) -> None:
        self._listener = await self.host.network.listen(self.host.name, port, lambda: _Connection(self))

    def die(self, *, still_takes: int) -> None:
        self.still_takes = still_takes
        for connection in self.connections:
            connection.abort()
        self._refuse_if_none_is_left()

    def is_gone(self) -> bool:
        """Of a connection that was taken now."""
        if self.still_takes is None:
            return False
        self.still_takes -= 1
        self._refuse_if_none_is_left()
        return True

    def _refuse_if_none_is_left(self) -> None:
        if self.still_takes == 0:
            assert self._listener is not None
            self._listener.close()


class _Connection(asyncio.Protocol):
    def __init__(self, broker: AnsweringBroker) -> None:
        self._broker = broker
        self._received = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._broker.connections.append(self)
        if self._broker.is_gone():
            self.abort()

    def abort(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            frame, self._received = bytes(self._received[4:end]), self._received[end:]
            self._serve(frame)

    def _serve(self, frame: bytes) -> None:
        header, position = decode_request_header(frame)
        broker, key = self._broker, ApiKey(header.api_key)
        name = ConnectionName.parse(header.client_id)
        if name not in broker.names:
            broker.names.append(name)
        response: Any
        if key is ApiKey.API_VERSIONS:
            broker.asked_versions += 1
            response = ApiVersionsResponse(
                api_keys=[
                    ApiVersion(ApiKey.LIST_TRANSACTIONS, 0, broker.versions_max),
                    ApiVersion(ApiKey.API_VERSIONS, 0, 4),
                ]
            )
        elif key is ApiKey.SASL_HANDSHAKE:
            response = SaslHandshakeResponse(mechanisms=["PLAIN"])
        elif key is ApiKey.SASL_AUTHENTICATE:
            broker.proofs += 1
            broker.asked.append((header.api_version, "proof"))
            response = SaslAuthenticateResponse(session_lifetime_ms=broker.session_ms)
        else:
            asked = decode(ListTransactionsRequest, frame, header.api_version, position)
            broker.asked.append((header.api_version, asked.state_filters[0]))
            if broker.is_silent:
                return
            response = ListTransactionsResponse(transaction_states=[TransactionState(asked.state_filters[0])])
        assert self.transport is not None
        self.transport.write(encode_response(header.correlation_id, APIS[key], header.api_version, response))


class Asking:
    def __init__(
        self, simulation: Simulation, brokers: dict[int, Broker], login: Callable[[], Plain] | None = None
    ) -> None:
        self.answers: list[tuple[str, str | None]] = []
        network = simulation.host("here").network
        self.peers = Peers(HERE, network=network, loop=simulation.loop, brokers=lambda: brokers, login=login)

    def ask(self, text: str, purpose: Purpose = Purpose.MARKERS, node_id: int = THERE) -> None:
        def answered(response: ListTransactionsResponse | None) -> None:
            said = None if response is None else response.transaction_states[0].transactional_id
            self.answers.append((text, said))

        before = len(self.answers)
        self.peers.ask(node_id, purpose, ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest([text]), answered)
        assert len(self.answers) == before, "answered from inside ask"


def registered(host: str = "there", port: int = PORT) -> Broker:
    return Broker(THERE, host, 9092, inter_broker=Endpoint(host, port))


def test_requests_go_out_in_order_and_each_is_answered_once() -> None:
    async def scenario(simulation: Simulation) -> None:
        there, asking = AnsweringBroker(simulation), Asking(simulation, {THERE: registered()})
        await there.listen()
        texts = [str(number) for number in range(20)]
        for text in texts[:10]:
            asking.ask(text)
        await asyncio.sleep(1)
        for text in texts[10:]:
            asking.ask(text)
        await asyncio.sleep(1)
        assert asking.answers == [(text, text) for text in texts]
        assert [text for _, text in there.asked] == texts
        assert len(there.names) == 1, "one connection"

    run(scenario)


def test_each_purpose_has_a_connection_of_its_own() -> None:
    async def scenario(simulation: Simulation) -> None:
        there, asking = AnsweringBroker(simulation), Asking(simulation, {THERE: registered()})
        await there.listen()
        asking.ask("a", Purpose.MARKERS)
        asking.ask("b", Purpose.ADMISSION)
        await asyncio.sleep(1)
        assert {name.purpose for name in there.names} == {"markers", "admission"}

    run(scenario)


def test_the_highest_version_that_both_know_is_asked() -> None:
    async def scenario(simulation: Simulation) -> None:
        there, asking = AnsweringBroker(simulation, versions_max=1), Asking(simulation, {THERE: registered()})
        await there.listen()
        asking.ask("a")
        await asyncio.sleep(1)
        assert there.asked == [(1, "a")]

    run(scenario)


def test_what_was_asked_on_a_lost_connection_is_answered_with_none_and_not_sent_again() -> None:
    async def scenario(simulation: Simulation) -> None:
        there, asking = AnsweringBroker(simulation), Asking(simulation, {THERE: registered()})
        await there.listen()
        there.is_silent = True
        asking.ask("lost")
        asking.ask("lost too")
        await asyncio.sleep(1)
        transport = there.connections[0].transport
        assert transport is not None
        transport.abort()
        await asyncio.sleep(1)
        assert asking.answers == [("lost", None), ("lost too", None)]
        there.is_silent = False
        await asyncio.sleep(BACKOFF_MS_MAX / 1000)
        asking.ask("later")
        await asyncio.sleep(1)
        assert asking.answers[2:] == [("later", "later")]
        assert [text for _, text in there.asked] == ["lost", "lost too", "later"]
        first, second = there.names
        assert second.number > first.number

    run(scenario)


def test_a_broker_that_does_not_answer_loses_its_connection_in_time() -> None:
    async def scenario(simulation: Simulation) -> None:
        there, asking = AnsweringBroker(simulation), Asking(simulation, {THERE: registered()})
        await there.listen()
        there.is_silent = True
        asking.ask("a")
        await asyncio.sleep(ANSWER_SECONDS_MAX + 5)
        assert asking.answers == [("a", None)]

    run(scenario)


@pytest.mark.parametrize("now", [{}, {THERE: Broker(THERE, "there", 9092, None, 2, Endpoint("there", PORT))}])
def test_what_was_asked_under_a_registration_that_has_ended_is_answered_with_none(now: dict[int, Broker]) -> None:
    """After a power cut no answer comes, and the next process at the same address was asked nothing."""

    async def scenario(simulation: Simulation) -> None:
        brokers = {THERE: registered()}
        there, asking = AnsweringBroker(simulation), Asking(simulation, brokers)
        await there.listen()
        there.is_silent = True
        asking.ask("a")
        await asyncio.sleep(1)
        there.host.cut_power()
        brokers.clear()
        brokers.update(now)
        change = BrokerRegistered(now[THERE]) if now else BrokerUnregistered(THERE)
        asking.peers.changed(ClusterImage("c"), ClusterImage("c"), [change])
        await asyncio.sleep(1)
        assert asking.answers == [("a", None)]

    run(scenario)


@pytest.mark.parametrize("brokers", [{}, {THERE: registered("nowhere")}, {THERE: Broker(THERE, "there", 9092)}])
def test_a_broker_that_cannot_be_reached_is_answered_with_none(brokers: dict[int, Broker]) -> None:
    async def scenario(simulation: Simulation) -> None:
        asking = Asking(simulation, brokers)
        for _ in range(3):
            asking.ask("a")
            await asyncio.sleep(10)
        assert asking.answers == [("a", None)] * 3

    run(scenario)


def test_a_broker_that_registers_with_another_address_is_asked_there() -> None:
    async def scenario(simulation: Simulation) -> None:
        brokers = {THERE: registered()}
        old, new, asking = AnsweringBroker(simulation), AnsweringBroker(simulation, "new"), Asking(simulation, brokers)
        await old.listen()
        await new.listen()
        asking.ask("a")
        await asyncio.sleep(1)
        brokers[THERE] = registered("new")
        asking.ask("b")
        await asyncio.sleep(1)
        assert asking.answers == [("a", "a"), ("b", "b")]
        assert [text for _, text in new.asked] == ["b"]

    run(scenario)


class LookingFor(Asking):
    def __init__(self, simulation: Simulation, brokers: dict[int, Broker]) -> None:
        super().__init__(simulation, brokers)
        self.refusing: list[tuple[int, int]] = []

        def refused(node_id: int, broker_epoch: int) -> None:
            self.refusing.append((node_id, broker_epoch))
            brokers.pop(node_id, None)  # As the controller's commit does, soon.

        self.peers.on_refused = refused


@pytest.mark.parametrize("still_takes", [0, 1, 2])
@pytest.mark.parametrize("is_connected", [True, False])
def test_a_process_that_is_gone_is_found_although_its_machine_takes_connections_for_a_moment(
    still_takes: int, is_connected: bool
) -> None:
    async def scenario(simulation: Simulation) -> None:
        looking = LookingFor(simulation, {THERE: replace(registered(), epoch=7)})
        there = AnsweringBroker(simulation)
        await there.listen()
        if is_connected:
            looking.ask("a", Purpose.QUESTIONS)
            await asyncio.sleep(1)
        there.die(still_takes=still_takes)
        looking.peers.look_for(THERE)
        looking.peers.look_for(THERE)
        await asyncio.sleep(1)
        assert looking.refusing == [(THERE, 7)]

    run(scenario)


def test_a_process_that_answers_is_left_alone_and_looked_for_again_when_another_connection_is_lost() -> None:
    async def scenario(simulation: Simulation) -> None:
        looking = LookingFor(simulation, {THERE: registered()})
        there = AnsweringBroker(simulation)
        await there.listen()
        looking.peers.look_for(THERE)
        looking.peers.look_for(THERE)
        await asyncio.sleep(5)
        assert there.asked_versions == 2, "those of the connection, and once to see whether it answers"
        looking.peers.look_for(THERE)
        await asyncio.sleep(5)
        assert there.asked_versions == 3
        assert looking.refusing == []

    run(scenario)


def test_closing_answers_everything() -> None:
    async def scenario(simulation: Simulation) -> None:
        there, asking = AnsweringBroker(simulation), Asking(simulation, {THERE: registered()})
        await there.listen()
        there.is_silent = True
        asking.ask("a")
        await asyncio.sleep(1)
        asking.ask("b")
        asking.peers.close()
        asking.ask("c")
        await asyncio.sleep(1)
        assert sorted(asking.answers) == [("a", None), ("b", None), ("c", None)]

    run(scenario)


def test_a_proof_is_given_once_where_it_holds_for_ever() -> None:
    async def scenario(simulation: Simulation) -> None:
        there = AnsweringBroker(simulation)
        asking = Asking(simulation, {THERE: registered()}, login=lambda: Plain("broker", "secret"))
        await there.listen()
        for number in range(10):
            asking.ask(str(number))
            await asyncio.sleep(60)
        assert asking.answers == [(str(number), str(number)) for number in range(10)]
        assert (there.proofs, len(there.names)) == (1, 1)

    run(scenario)


def test_a_proof_that_holds_for_some_time_is_given_again_on_the_same_connection_before_the_next_request() -> None:
    async def scenario(simulation: Simulation) -> None:
        there = AnsweringBroker(simulation)
        there.session_ms = 10_000
        asking = Asking(simulation, {THERE: registered()}, login=lambda: Plain("broker", "secret"))
        await there.listen()
        texts = ["a", "b", "c", "d"]
        asking.ask("a")
        await asyncio.sleep(8)
        asking.ask("b")
        await asyncio.sleep(1)
        asking.ask("c")
        asking.ask("d")
        await asyncio.sleep(1)
        assert [text for _, text in there.asked] == ["proof", "a", "b", "proof", "c", "d"]
        await asyncio.sleep(100)
        asking.ask("e")
        await asyncio.sleep(1)
        assert asking.answers == [(text, text) for text in [*texts, "e"]]
        assert (there.proofs, len(there.names)) == (3, 1)

    run(scenario)
