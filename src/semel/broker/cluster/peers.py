"""Connections to other brokers, and the requests on them: one connection for each broker and purpose.

    ask --> no connection --> connecting --> (SASL) --> versions agreed --> open --> requests and responses in order
                 ^                |            |               |              |
                 +---- back-off --+------------+---------------+---- lost ----+

If the other broker limits the time of a SASL session (KIP-368), an open connection authenticates again before the next
request near the end of that time; requests wait for it.

The law: ``answered`` is called exactly once for each request, never from inside ``ask``: with the response, or with
``None`` if there is none, and then the request may have been carried out or not. This module does not repeat requests.

A connection ends with the registration of the other broker: after a power cut the process that received the requests
does not respond, and the new process has not received them.

The client id is the name of the connection: broker, purpose, broker epoch, and a number that grows with every
connection. By that name the receiver knows the newest connection (``connection_names``).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from semel.broker.cluster.connection_names import ConnectionName
from semel.clock import NEVER
from semel.errors import AuthorizationFailed, DecodeError
from semel.metadata.image import Broker, BrokerRegistered, BrokerUnregistered, Change, ClusterImage, Endpoint
from semel.net.frame_receiver import FrameReceiver
from semel.net.network import Network
from semel.types import INT32_MAX
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.codec import decoder
from semel.wire.framing import decode_response_header, encode_request
from semel.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:  # Imported only if other brokers require SASL.
    from semel.security.sasl.client import Mechanism
    from semel.security.sasl.login import Authentication
    from semel.security.sasl.login import Request as ProofRequest

logger = logging.getLogger("semel.broker")

CONNECT_SECONDS_MAX: Final = 5.0
ANSWER_SECONDS_MAX: Final = 30.0
LOOKS_MAX: Final = 5
LOOKS_PAUSE_S: Final = 0.1
BACKOFF_MS_MIN: Final = 20
BACKOFF_MS_MAX: Final = 1000

_SOFTWARE: Final = ApiVersionsRequest(client_software_name="semel", client_software_version="broker")

Answered: TypeAlias = Callable[[Any], None]


class Purpose(StrEnum):
    """The purpose of a connection: a request that takes long for one purpose does not delay those for another."""

    ADMISSION = "admission"
    COPYING = "copying"
    MARKERS = "markers"
    QUESTIONS = "questions"


class Peers:
    """The connections of this broker to all others.

    ``brokers`` returns the registered brokers of the current image. ``login`` makes the SASL mechanism with which this
    broker authenticates; None without SASL.
    """

    def __init__(
        self,
        node_id: int,
        *,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        brokers: Callable[[], Mapping[int, Broker]],
        login: Callable[[], Mechanism] | None = None,
    ) -> None:
        self._node_id = node_id
        self._network = network
        self._loop = loop
        self._brokers = brokers
        self.login = login
        self._peers: dict[tuple[int, Purpose], _Peer] = {}
        self._numbers = itertools.count(1)
        self.broker_epoch = 0
        """The broker epoch of this broker's registration."""
        self.on_refused: Callable[[int, int], None] = _ignored
        """Called with the id and the broker epoch of a broker whose machine refuses connections, because no process
        listens there."""
        self._looking_for: set[int] = set()
        self._is_closed = False

    def ask(self, node_id: int, purpose: Purpose, key: ApiKey, message: object, answered: Answered) -> None:
        """Send a request, after the earlier ones of this broker and purpose. Calls ``answered`` with the response."""
        peer = self._peers.get((node_id, purpose))
        if peer is None:
            peer = self._peers[node_id, purpose] = _Peer(self, node_id, purpose)
        peer.ask(_Question(APIS[key], message, answered))

    def look_for(self, node_id: int) -> None:
        """Find out whether the process of a broker is gone, after its connection was lost. If it is, ``on_refused`` is
        called."""
        if node_id not in self._looking_for and self.registration(node_id) is not None:
            self._looking_for.add(node_id)
            self._look_for(node_id, LOOKS_MAX)

    def _look_for(self, node_id: int, looks: int) -> None:
        def answered(response: ApiVersionsResponse | None) -> None:
            # A process that dies may still accept a connection, and the loss of one to it may not be noticed yet.
            if response is None and looks > 1 and self.registration(node_id) is not None:
                self._loop.call_later(LOOKS_PAUSE_S, self._look_for, node_id, looks - 1)
            else:
                self._looking_for.discard(node_id)

        self.ask(node_id, Purpose.QUESTIONS, ApiKey.API_VERSIONS, _SOFTWARE, answered)

    def changed(self, before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
        """Watch ``ClusterMetadata``: close the connections to brokers whose registrations have ended."""
        if any(isinstance(change, BrokerRegistered | BrokerUnregistered) for change in changes):
            for (node_id, _), peer in self._peers.items():
                peer.registered(self.registration(node_id))

    def close(self) -> None:
        """Close all connections. Unanswered requests are answered with ``None``."""
        self._is_closed = True
        for peer in self._peers.values():
            peer.lose("this broker ends")

    # For a peer

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def network(self) -> Network:
        return self._network

    def registration(self, node_id: int) -> Broker | None:
        return None if self._is_closed else self._brokers().get(node_id)

    def next_name(self, purpose: Purpose) -> str:
        return str(ConnectionName(self._node_id, purpose.value, self.broker_epoch, next(self._numbers)))


class _Question(NamedTuple):
    api: Api
    message: object
    answered: Answered


class _Asked(NamedTuple):
    correlation_id: int
    question: _Question
    version: int
    deadline_s: float


class _Peer:
    """Another broker, for one purpose: its connection, while there is one, and the requests to it."""

    def __init__(self, peers: Peers, node_id: int, purpose: Purpose) -> None:
        self._peers = peers
        self._node_id = node_id
        self._purpose = purpose
        self._broker: Broker | None = None
        self._name = ""
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._versions: dict[int, int] = {}
        self._is_open = False
        self._prove_at_s = NEVER
        self._waiting: deque[_Question] = deque()
        self._asked: deque[_Asked] = deque()
        self._correlation_ids = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._backoff_ms = 0
        self._not_before_s = 0.0

    def ask(self, question: _Question) -> None:
        self.registered(self._peers.registration(self._node_id))
        endpoint = None if self._broker is None else self._broker.inter_broker
        if endpoint is None or self._peers.loop.time() < self._not_before_s:
            self._peers.loop.call_soon(question.answered, None)
            return
        if self._is_open and self._peers.loop.time() >= self._prove_at_s:
            self._is_open = False
            self._begin_proof()
        if self._is_open:
            self._send(question)
            return
        self._waiting.append(question)
        if self._connecting is None and self._connection is None:
            self._connecting = self._peers.loop.create_task(self._connect(endpoint))

    def registered(self, broker: Broker | None) -> None:
        """Set the current registration of the broker. The connection is closed if it belongs to another one."""
        if broker != self._broker:
            self.lose("its registration has ended")
            self._broker, self._backoff_ms, self._not_before_s = broker, 0, 0.0

    def lose(self, reason: object) -> None:
        """Close the connection, and answer all its requests with ``None``."""
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_open = False
        unanswered = [*(asked.question for asked in self._asked), *self._waiting]
        self._asked.clear()
        self._waiting.clear()
        if unanswered:
            logger.info(
                "broker %d gives no answer to %d request(s) (%s): %s",
                self._node_id,
                len(unanswered),
                self._purpose,
                reason,
            )
        for question in unanswered:
            self._peers.loop.call_soon(question.answered, None)

    async def _connect(self, endpoint: Endpoint) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                _, protocol = await self._peers.network.connect(*endpoint, lambda: _Connection(self))
        except (OSError, TimeoutError) as error:
            self._connecting = None
            broker = self._broker
            self._failed(f"{endpoint.host}:{endpoint.port}: {error or 'no connection in time'}")
            if isinstance(error, ConnectionRefusedError) and broker is not None:
                self._peers.on_refused(broker.node_id, broker.epoch)
            return
        self._connecting = None
        self._connection = cast(_Connection, protocol)
        self._name = self._peers.next_name(self._purpose)
        self._versions = {}
        self._prove_at_s = NEVER
        if self._peers.login is None:
            self._agree()
        else:
            self._begin_proof()

    def _begin_proof(self) -> None:
        from semel.security.sasl.login import Authentication

        assert self._peers.login is not None
        proof = Authentication(self._peers.login())
        self._prove(proof, proof.first())

    def _prove(self, proof: Authentication, request: ProofRequest) -> None:
        from semel.wire.messages.sasl_handshake import SaslHandshakeRequest

        def answered(response: object) -> None:
            if response is None:
                return  # The connection is lost.
            try:
                following = proof.answered(response)
            except AuthorizationFailed as error:
                self._failed(error)
                return
            if following is not None:
                self._prove(proof, following)
                return
            self._prove_at_s = self._peers.loop.time() + proof.renewal_ms / 1000
            if self._versions:
                self._open()
            else:
                self._agree()

        api = APIS[ApiKey.SASL_HANDSHAKE if isinstance(request, SaslHandshakeRequest) else ApiKey.SASL_AUTHENTICATE]
        self._write(_Question(api, request, answered), api.max_version)

    def _agree(self) -> None:
        api = APIS[ApiKey.API_VERSIONS]
        self._write(_Question(api, _SOFTWARE, self._agreed), api.max_version)

    def _agreed(self, response: ApiVersionsResponse | None) -> None:
        if response is None:
            return  # The connection is lost.
        if response.error_code:
            self._failed(f"it answers ApiVersions with error {response.error_code}")
            return
        self._versions = {known.api_key: known.max_version for known in response.api_keys}
        self._open()

    def _open(self) -> None:
        self._is_open = True
        self._backoff_ms = 0
        waiting, self._waiting = self._waiting, deque()
        for question in waiting:
            self._send(question)

    def _send(self, question: _Question) -> None:
        offered = self._versions.get(question.api.key)
        if offered is None:
            self._peers.loop.call_soon(question.answered, None)
            return
        self._write(question, min(offered, question.api.max_version))

    def _write(self, question: _Question, version: int) -> None:
        assert self._connection is not None
        correlation_id = next(self._correlation_ids) & INT32_MAX
        self._asked.append(_Asked(correlation_id, question, version, self._peers.loop.time() + ANSWER_SECONDS_MAX))
        self._connection.write(
            encode_request(correlation_id, question.api, version, question.message, client_id=self._name)
        )
        if self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer = self._peers.loop.call_at(self._asked[0].deadline_s, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        self._timer = None
        if not self._asked:
            return
        if self._asked[0].deadline_s <= self._peers.loop.time():
            self._failed(f"no answer within {ANSWER_SECONDS_MAX:g} s")
        else:
            self._set_timer()

    def _failed(self, reason: object) -> None:
        self._backoff_ms = min(max(2 * self._backoff_ms, BACKOFF_MS_MIN), BACKOFF_MS_MAX)
        self._not_before_s = self._peers.loop.time() + self._backoff_ms / 1000
        self.lose(reason)

    # Called by the connection

    def received(self, connection: _Connection, frame: bytes | memoryview) -> None:
        if connection is not self._connection:
            return
        if not self._asked:
            raise DecodeError("an answer to nothing")
        asked = self._asked.popleft()
        api, version = asked.question.api, asked.version
        correlation_id, position = decode_response_header(frame, api, version)
        if correlation_id != asked.correlation_id:
            self._asked.appendleft(asked)
            raise DecodeError(f"an answer to request {correlation_id}; it was request {asked.correlation_id}'s turn")
        try:
            response = decoder(api.response_class, version)(frame, position)
        except DecodeError:
            self._asked.appendleft(asked)
            raise
        asked.question.answered(response)

    def lost(self, connection: _Connection, reason: object) -> None:
        if connection is self._connection:
            self._failed(reason)


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, peer: _Peer) -> None:
        self._peer = peer
        self._receiver = FrameReceiver()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                self._peer.received(self, frame)
        except DecodeError as error:
            self._peer.lost(self, error)

    def connection_lost(self, error: Exception | None) -> None:
        self._peer.lost(self, error or "the connection was closed")

    def write(self, frame: bytearray) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _ignored(node_id: int, broker_epoch: int) -> None:
    """The ``on_refused`` until ``Replicas`` sets its own."""
