"""What all machines share: the driver's connection events go to ``Connections``, and ``poll`` sets a deadline."""

from __future__ import annotations

from semel.client.machine.connection.connections import Connections
from semel.clock import NEVER
from semel.types import Buffer


class ConnectedMachine:
    """The methods of ``actions.Machine`` that only pass events on. Each machine has its own ``poll``."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._deadline_ms = NEVER

    def connected(self, connection: int, now_ms: float) -> None:
        self._connections.connected(connection, now_ms)

    def received(self, connection: int, frame: Buffer, now_ms: float) -> None:
        self._connections.received(connection, frame, now_ms)

    def disconnected(self, connection: int, reason: str, now_ms: float) -> None:
        self._connections.disconnected(connection, reason, now_ms)

    def token_received(self, connection: int, token: str, now_ms: float) -> None:
        self._connections.token_received(connection, token, now_ms)

    def token_failed(self, connection: int, reason: str, now_ms: float) -> None:
        self._connections.token_failed(connection, reason, now_ms)

    def refused(self, reason: str) -> None:
        self._connections.refused(reason)

    def next_deadline_ms(self) -> float:
        return self._deadline_ms
