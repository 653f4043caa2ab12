"""The group's coordinator: sends requests to the broker that coordinates the group."""

from __future__ import annotations

from typing import Final

from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import COORDINATION, Connections
from semel.client.machine.connection.coordinators import CoordinatorKey, CoordinatorLookup, CoordinatorType


class GroupCoordinator:
    def __init__(self, group_id: str, connections: Connections, coordinators: CoordinatorLookup) -> None:
        self.group_id: Final = group_id
        self._key = CoordinatorKey(CoordinatorType.GROUP, group_id)
        self._connections = connections
        self._coordinators = coordinators

    def ask(self, call: Call, now_ms: float, *, lane: int = COORDINATION) -> bool:
        """Send a request if the coordinator is ready. If not, look it up or connect to it, and return ``False``."""
        route = self._coordinators.route(self._key, now_ms, lane=lane)
        if route is None:
            return False
        self._connections.send(route, call, now_ms)
        return True

    def forget(self) -> None:
        """Forget the coordinator, which was wrong or could not be reached."""
        self._coordinators.forget(self._key)
