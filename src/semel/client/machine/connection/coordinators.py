"""The coordinators of groups and transactional ids: found with FindCoordinator when needed, forgotten when wrong."""

from __future__ import annotations

from enum import IntEnum
from random import Random
from typing import Any, Final, NamedTuple

from semel.client.config.common import ClientConfig
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import Connections, Route
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.retry import Retry
from semel.clock import NEVER
from semel.errors import ErrorCode, Family, KafkaError, client_error, family_of
from semel.types import Address
from semel.wire.apis import ApiKey
from semel.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_BATCHES_SINCE: Final = 4


class CoordinatorType(IntEnum):
    """The kind of thing that is coordinated, with its number on the wire."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorKey(NamedTuple):
    type: CoordinatorType
    name: str


class CoordinatorLookup:
    def __init__(
        self,
        config: ClientConfig,
        connections: Connections,
        metadata: Metadata,
        random: Random,
        *,
        lane: int,
    ) -> None:
        self._connections = connections
        self._metadata = metadata
        self._lane = lane
        self._refusals: dict[CoordinatorKey, KafkaError] = {}
        self._first_try = Retry.of(config, random)
        self._known: dict[CoordinatorKey, int] = {}
        self._asking: set[CoordinatorKey] = set()
        self._retries: dict[CoordinatorKey, Retry] = {}

    def route(self, key: CoordinatorKey, now_ms: float, *, lane: int | None = None) -> Route | None:
        """Return the route to the coordinator, if it is ready; otherwise look it up or connect to it."""
        node_id = self._known.get(key)
        if node_id is None:
            self._look_up(key, now_ms)
            return None
        route = Route(node_id, self._lane if lane is None else lane)
        if self._connections.ready(route, now_ms):
            return route
        if self._connections.is_unreachable(route):
            # Another broker may have become the coordinator meanwhile, and no answer has said so.
            self.forget(key)
            self._failed(key, now_ms)
        return None

    def forget(self, key: CoordinatorKey) -> None:
        """Remove a coordinator that has turned out to be wrong."""
        self._known.pop(key, None)

    def take_refusals(self) -> dict[CoordinatorKey, KafkaError]:
        """Return the keys whose lookup was refused since the last call, with errors that no retry will change."""
        refusals, self._refusals = self._refusals, {}
        return refusals

    def next_deadline_ms(self, now_ms: float) -> float:
        return min((retry.next_deadline_ms(now_ms) for retry in self._retries.values()), default=NEVER)

    def _look_up(self, key: CoordinatorKey, now_ms: float) -> None:
        if key in self._asking or not self._retries.get(key, self._first_try).is_due(now_ms):
            return
        route = self._connections.least_loaded(now_ms, self._lane)
        if route is None:
            return
        self._asking.add(key)
        self._connections.send(
            route,
            Call(
                ApiKey.FIND_COORDINATOR,
                build=lambda version: FindCoordinatorRequest(
                    key=key.name, key_type=key.type, coordinator_keys=[key.name]
                ),
                answered=lambda response, version, at_ms: self._answered(key, response, version, at_ms),
                lost=lambda reason, at_ms: self._failed(key, at_ms),
            ),
            now_ms,
        )

    def _answered(self, key: CoordinatorKey, response: Any, version: int, now_ms: float) -> None:
        found = _found(response, version)
        if found.error_code == ErrorCode.NONE and found.node_id is not None and found.port is not None:
            self._asking.discard(key)
            self._retries.pop(key, None)
            self._known[key] = found.node_id
            self._metadata.broker_found(found.node_id, Address(found.host, found.port), now_ms)
        elif found.error_code == ErrorCode.NONE or family_of(found.error_code) is Family.RETRIABLE:
            self._failed(key, now_ms)
        else:
            self._asking.discard(key)
            what = "transactional id" if key.type is CoordinatorType.TRANSACTION else "group"
            reason = f" ({found.error_message})" if found.error_message else ""
            text = f"no coordinator for {what} {key.name!r}{reason}"
            self._refusals[key] = client_error(found.error_code, text)

    def _failed(self, key: CoordinatorKey, now_ms: float) -> None:
        self._asking.discard(key)
        self._retries[key] = self._retries.get(key, self._first_try).failed(now_ms)


def _found(response: FindCoordinatorResponse, version: int) -> Coordinator:
    if version >= _BATCHES_SINCE:
        return response.coordinators[0]
    return Coordinator("", response.node_id, response.host, response.port, response.error_code, response.error_message)
