"""Dispatches the requests on the listener of brokers, which serves only requests between brokers.

A connection that is not the newest one of its broker and purpose is closed (``connection_names``). The law: a client
that is no broker never has a part in this; otherwise it could close the connections of brokers by using their names.
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
        # ApiVersions is served before the client is authenticated. Other requests of a client without the right of
        # brokers are refused where all rights are checked.
        if header.api_key != ApiKey.API_VERSIONS and self._may_be_broker(connection):
            self._newest.check(header.client_id, connection)
        super().request(connection, frame)

    def _may_be_broker(self, connection: Connection) -> bool:
        authorizer = self._node.authorizer
        if authorizer is None:
            return True
        from semel.security.rights import CLUSTER_ACTION  # Imported only if rights are checked.

        return authorizer.rights(connection.principal, connection.host).may(CLUSTER_ACTION)
