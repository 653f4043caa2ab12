"""The names of connections between brokers: a receiver serves only the newest connection of a broker and purpose.

If a connection is lost, its request may be sent again on the next connection. The first copy may still be unread in the
older connection, and must not be carried out later. So each connection has a name, in the client id of its requests,
which contains a growing number. Only the newest connection of a broker and purpose is served.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from semel.errors import DecodeError

_PREFIX: Final = "semel-broker"


class ConnectionName(NamedTuple):
    """The name of a connection: the broker that opened it, its purpose, and what orders it among the others."""

    node_id: int
    purpose: str
    broker_epoch: int
    number: int

    def __str__(self) -> str:
        return f"{_PREFIX}/{self.node_id}/{self.purpose}/{self.broker_epoch}/{self.number}"

    @classmethod
    def parse(cls, client_id: str | None) -> ConnectionName:
        """Return the name in a client id. Raises DecodeError."""
        prefix, *fields = (client_id or "").split("/")
        try:
            node_id, purpose, broker_epoch, number = fields
            if prefix == _PREFIX:
                return cls(int(node_id), purpose, int(broker_epoch), int(number))
        except ValueError:
            pass
        raise DecodeError(f"client id {client_id!r} on the listener of brokers; it names the connection of a broker")


class Abortable(Protocol):
    def abort(self) -> None: ...


class NewestConnections:
    """The newest connection of each broker and purpose. A request on an older connection is refused."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, str], tuple[ConnectionName, Abortable]] = {}

    def check(self, client_id: str | None, connection: Abortable) -> None:
        """Check the connection of a request that has arrived. Raises DecodeError if the request must not be served."""
        name = ConnectionName.parse(client_id)
        key = (name.node_id, name.purpose)
        known = self._newest.get(key)
        if known is not None:
            newest, served = known
            if served is connection and newest == name:
                return
            if (name.broker_epoch, name.number) <= (newest.broker_epoch, newest.number):
                raise DecodeError(f"connection {name} is older than {newest}, which is served")
            served.abort()
        self._newest[key] = (name, connection)
