"""The listener of brokers: what they ask each other, and nothing else.

Each connection is the newest of its broker and purpose, or is closed (``connection_names``).
"""

from __future__ import annotations

from semel.broker.cluster.connection_names import NewestConnections
from semel.broker.network.connection import Connection
from semel.broker.node import Node
from semel.broker.requests.dispatch import Dispatcher
from semel.broker.requests.routes import ASKED_BY_BROKERS
from semel.wire.apis import ApiKey
from semel.wire.framing import decode_request_header


class InterBrokerDispatcher(Dispatcher):
    def __init__(self, node: Node) -> None:
        super().__init__(node, served=ASKED_BY_BROKERS, for_brokers=True)
        self._newest = NewestConnections()

    def request(self, connection: Connection, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        # What is answered before a client is known must not end the connections of others.
        if header.api_key != ApiKey.API_VERSIONS:
            self._newest.check(header.client_id, connection)
        super().request(connection, frame)
