"""A machine among model brokers, with a clock that is moved by hand: no sockets, no loop, no waiting.

``Bench.turn`` polls the machine and carries its frames to the brokers; each request is answered by the cluster's rule
for it, or held in ``Bench.pending`` if a test wants to answer it, lose it or let it wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from semel.client.machine.connection.actions import Connect, Disconnect, Machine, Send
from semel.types import Address
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_request_header, encode_response
from tests.unit.client.machine.model_cluster import ModelCluster


@dataclass(eq=False)
class Request:
    connection: int
    node_id: int
    api_key: ApiKey
    version: int
    correlation_id: int
    message: Any
    at_ms: float

    def __repr__(self) -> str:
        return f"{self.api_key.name} v{self.version} to {self.node_id}"


@dataclass
class Bench:
    machine: Machine
    cluster: ModelCluster = field(default_factory=ModelCluster)
    now_ms: float = 0.0
    held: Callable[[Request], bool] = lambda request: False
    """Which requests wait for the test to answer them."""
    due_ms: Callable[[Request], float] = lambda request: float("inf")
    """When a held request is to be looked at again."""
    refusing: set[int] = field(default_factory=set)
    """Nodes that cannot be connected to."""

    def __post_init__(self) -> None:
        self.connections: dict[int, int] = {}
        self.pending: list[Request] = []
        self.seen: list[Request] = []
        self.connects: list[tuple[float, Address]] = []

    # Time

    def turn(self) -> None:
        """Poll, carry, answer, until nothing moves."""
        for connection in tuple(self.connections):
            self._go_on(connection)
        for _ in range(1000):
            actions = self.machine.poll(self.now_ms)
            if not actions:
                return
            for action in actions:
                match action:
                    case Connect():
                        self._connect(action)
                    case Disconnect():
                        self.connections.pop(action.connection, None)
                        self.pending = [r for r in self.pending if r.connection != action.connection]
                    case Send():
                        self._receive(action)
        raise AssertionError("the machine never comes to rest")

    def advance(self, ms: float) -> None:
        """Let time pass, and the machine wake whenever it wanted to."""
        end_ms = self.now_ms + ms
        for _ in range(100_000):
            deadline_ms = self.machine.next_deadline_ms()
            assert deadline_ms >= self.now_ms, f"deadline {deadline_ms} lies before {self.now_ms}"
            # Nothing but a deadline or an answer wakes the machine. A broker may hold an answer back for a time.
            deadline_ms = min(
                [deadline_ms, *(due_ms for due_ms in map(self.due_ms, self.pending) if due_ms > self.now_ms)]
            )
            if deadline_ms > end_ms:
                break
            self.now_ms = deadline_ms
            self.turn()
        else:
            raise AssertionError("the machine wakes without end")
        self.now_ms = end_ms
        self.turn()

    # What a test does to requests

    def requests(self, api_key: ApiKey) -> list[Request]:
        """Everything of one kind that was ever sent."""
        return [request for request in self.seen if request.api_key is api_key]

    def waiting(self, api_key: ApiKey) -> list[Request]:
        return [request for request in self.pending if request.api_key is api_key]

    def answer(self, request: Request, response: object | None = None, *, turn: bool = True) -> None:
        """Answer a held request, as the cluster would unless told otherwise, and those behind it that may go on."""
        assert request is next(r for r in self.pending if r.connection == request.connection), "answers come in order"
        self.pending.remove(request)
        self._answer(request, self.cluster.answer(request) if response is None else response)
        self._go_on(request.connection)
        if turn:
            self.turn()

    def release(self) -> None:
        """Hold nothing any more, and answer what was held."""
        self.held = lambda request: False
        for connection in tuple(self.connections):
            self._go_on(connection)
        self.turn()

    def drop_connection(self, connection: int, *, turn: bool = True) -> None:
        """The connection is lost; requests on it that were held never arrived."""
        if self.connections.pop(connection, None) is not None:
            self.pending = [request for request in self.pending if request.connection != connection]
            self.machine.disconnected(connection, "lost by the test", self.now_ms)
            if turn:
                self.turn()

    # Inside

    def _connect(self, action: Connect) -> None:
        address = Address(action.host, action.port)
        self.connects.append((self.now_ms, address))
        node_id = self.cluster.node_at(address)
        if node_id is None or node_id in self.refusing:
            self.machine.disconnected(action.connection, "connection refused", self.now_ms)
        else:
            self.connections[action.connection] = node_id
            self.machine.connected(action.connection, self.now_ms)

    def _receive(self, action: Send) -> None:
        node_id = self.connections.get(action.connection)
        if node_id is None:
            return
        frame = b"".join(bytes(part) for part in action.parts)[4:]
        header, position = decode_request_header(frame)
        api = APIS[header.api_key]
        message = decode(api.request_class, frame, header.api_version, position)
        request = Request(
            action.connection, node_id, api.key, header.api_version, header.correlation_id, message, self.now_ms
        )
        self.seen.append(request)
        self.pending.append(request)
        self._go_on(request.connection)

    def _go_on(self, connection: int) -> None:
        """A broker answers in the order it was asked: what is held holds up what came after it."""
        for request in [pending for pending in self.pending if pending.connection == connection]:
            if self.held(request):
                return
            self.pending.remove(request)
            self._answer(request, self.cluster.answer(request))

    def _answer(self, request: Request, response: object | None) -> None:
        if response is not None and request.connection in self.connections:
            frame = encode_response(request.correlation_id, APIS[request.api_key], request.version, response)
            self.machine.received(request.connection, bytes(frame[4:]), self.now_ms)
