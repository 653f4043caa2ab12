"""Dispatches the requests on the listener of brokers, which serves only requests between brokers.

A connection that is not the newest one of its broker and purpose is closed (``connection_names``).
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
        # ApiVersions is served before the client is authenticated, so it must not close the connections of others.
        if header.api_key != ApiKey.API_VERSIONS:
            self._newest.check(header.client_id, connection)
        super().request(connection, frame)
