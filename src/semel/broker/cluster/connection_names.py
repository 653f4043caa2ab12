"""Which connection of another broker is its newest: the receiver serves that one and closes the others.

A request that was sent on a connection that was lost, and then again on the next, must not be carried out a second time
later on: the first copy may lie unread in the older connection. So each connection has a name that says which one it
is, in the client id of its requests, and the newest of a broker and purpose is the only one that is served.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from semel.errors import DecodeError

_PREFIX: Final = "semel-broker"


class ConnectionName(NamedTuple):
    node_id: int
    purpose: str
    broker_epoch: int
    number: int

    def __str__(self) -> str:
        return f"{_PREFIX}/{self.node_id}/{self.purpose}/{self.broker_epoch}/{self.number}"

    @classmethod
    def parse(cls, client_id: str | None) -> ConnectionName:
        """Raises DecodeError."""
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
    """The newest connection of each broker and purpose. An older one is refused when it is heard of again."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, str], tuple[ConnectionName, Abortable]] = {}

    def check(self, client_id: str | None, connection: Abortable) -> None:
        """A request came over this connection. Raises DecodeError if it is not to be served."""
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
