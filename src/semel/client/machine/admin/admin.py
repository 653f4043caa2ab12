"""An admin client's decisions: which broker to ask, when to ask again, and which answers are final.

The law: every key of a call is settled by the deadline of the call, with a value or with an error of its own. A request
whose response was lost is sent again, so it may be served twice; if the second response is a refusal, the error says
that the first try may have been served.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

from semel.client.admin.results import Results
from semel.client.config.admin import AdminConfig
from semel.client.machine.admin.admin_call import AdminCall, Item
from semel.client.machine.admin.ask import (
    AnyBroker,
    Ask,
    Controller,
    CoordinatorTarget,
    Leader,
    NodeTarget,
    Refusal,
    Target,
    is_authoritative,
)
from semel.client.machine.connection.actions import Action
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connected import ConnectedMachine
from semel.client.machine.connection.connections import DATA, Connections, Route
from semel.client.machine.connection.coordinators import CoordinatorKey, CoordinatorLookup
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.promise import Promise
from semel.client.machine.connection.retry import Retry
from semel.client.machine.producer.produce_errors import OUTDATED_METADATA
from semel.errors import AuthorizationFailed, ErrorCode, Family, KafkaError, StateError, UnsupportedVersion, family_of
from semel.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

# How often a request is sent again after a topic, partition or broker was said not to exist: brokers learn of a new one
# at different times. With the default backoff that takes less than a second.
NOT_FOUND_RETRIES_MAX: Final = 3

_DOES_NOT_EXIST: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.BROKER_NOT_AVAILABLE}
)
# Errors that are final although they may pass: to ask again within a minute does not help, or is not safe.
_ANSWERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    }
)
_WRONG_VIEW: Final = OUTDATED_METADATA | {ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE}
_WRONG_COORDINATOR: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

_Found: TypeAlias = Route | Refusal | str
"""The broker to ask, or the error that settles the key, or a text that says what is missing."""


class AdminMachine(ConnectedMachine):
    def __init__(self, config: AdminConfig, random: Random, *, software_version: str = "0") -> None:
        super().__init__(Connections(config.client, random, software_version=software_version))
        self._config = config
        self._retry = Retry.of(config.client, random)
        self._metadata = Metadata(config.client, self._connections, random, lane=DATA, may_create_topics=False)
        self._coordinators = CoordinatorLookup(config.client, self._connections, self._metadata, random, lane=DATA)
        self._admin_calls: list[AdminCall[Any, Any]] = []
        self._closed = False

    # What the application calls

    def ask(
        self, ask: Ask[K, V], keys: Iterable[K], now_ms: float, deadline_ms: float | None = None
    ) -> Promise[Results[K, V]]:
        """Ask about each of ``keys``. The promise is kept when all are settled, at ``deadline_ms`` at the latest."""
        if self._closed:
            raise StateError("the admin client is closed")
        timeout_ms = self._config.default_api_timeout_ms
        if deadline_ms is None:
            deadline_ms = now_ms + timeout_ms
        admin_call = AdminCall(ask, keys, self._retry, deadline_ms=deadline_ms, timeout_ms=timeout_ms)
        for key, item in admin_call.open.items():
            if isinstance(ask.target(key), Leader):
                item.outdated_at = self._metadata.updates  # The view may have an old leader.
        self._admin_calls.append(admin_call)
        return admin_call.promise

    @property
    def open_calls(self) -> list[str]:
        """The titles of all questions that are not answered yet, for a message to the user."""
        return [admin_call.title(key) for admin_call in self._admin_calls for key in admin_call.open]

    def metrics(self) -> dict[str, float]:
        return self._connections.metrics()

    def shut(self, now_ms: float) -> None:
        self._closed = True
        for admin_call in self._admin_calls:
            for key, item in tuple(admin_call.open.items()):
                item.was_lost |= item.is_sent
                admin_call.refused(
                    key, ErrorCode.NETWORK_EXCEPTION, "the admin client was closed before this was answered"
                )
        self._admin_calls.clear()
        self._connections.close("the admin client was closed", now_ms)

    # What the driver calls

    def poll(self, now_ms: float) -> list[Action]:
        try:
            self._poll(now_ms)
        except (AuthorizationFailed, UnsupportedVersion) as error:
            for admin_call in self._admin_calls:
                admin_call.fail(error)
            self._admin_calls.clear()
        self._deadline_ms = min(
            self._connections.next_deadline_ms(now_ms),
            self._metadata.next_deadline_ms(now_ms),
            self._coordinators.next_deadline_ms(now_ms),
            *(admin_call.next_deadline_ms(now_ms) for admin_call in self._admin_calls),
        )
        return self._connections.take_actions()

    # Asking

    def _poll(self, now_ms: float) -> None:
        self._connections.poll(now_ms)
        for coordinator_key, error in self._coordinators.take_refusals().items():
            self._no_coordinator(coordinator_key, error)
        for admin_call in self._admin_calls:
            if now_ms >= admin_call.deadline_ms:
                admin_call.out_of_time()
        self._admin_calls = [admin_call for admin_call in self._admin_calls if admin_call.open]
        self._metadata.retain(self._topics(), now_ms)
        for admin_call in self._admin_calls:
            self._send_what_is_due(admin_call, now_ms)
        self._metadata.poll(now_ms)  # Last, because the steps above may mark it outdated.

    def _send_what_is_due(self, admin_call: AdminCall[Any, Any], now_ms: float) -> None:
        found: dict[Target, _Found] = {}
        by_route: dict[Route, list[Any]] = {}
        for key, item in tuple(admin_call.open.items()):
            if item.is_sent or not item.retry.is_due(now_ms):
                continue
            if item.outdated_at == self._metadata.updates:
                self._metadata.outdated()
                continue  # The same view would lead to the same broker.
            target = admin_call.ask.target(key)
            if target not in found:
                found[target] = self._find(target, now_ms)
            match found[target]:
                case Route() as route:
                    by_route.setdefault(route, []).append(key)
                case Refusal() as refusal:
                    self._refused(admin_call, key, item, refusal, now_ms)
                case str() as why:
                    item.why = why
        for route, keys in by_route.items():
            for together in [[key] for key in keys] if admin_call.ask.is_single else [keys]:
                if self._connections.ready(route, now_ms):
                    self._send(admin_call, together, route, now_ms)

    def _send(self, admin_call: AdminCall[Any, Any], keys: Sequence[Any], route: Route, now_ms: float) -> None:
        ask = admin_call.ask
        call = Call(
            ask.api_key,
            build=lambda version: ask.build(keys, version),
            answered=lambda response, version, at_ms: self._answered(admin_call, keys, response, version, at_ms),
            lost=lambda reason, at_ms: self._lost(admin_call, keys, reason, at_ms),
            version_min=ask.version_min,
            version_max=ask.version_max,
        )
        try:
            self._connections.send(route, call, now_ms)
        except (AuthorizationFailed, UnsupportedVersion) as error:
            for key in keys:
                admin_call.failed(key, error)
        except ValueError as error:  # The caller passed a value that cannot be encoded.
            for key in keys:
                admin_call.refused(key, ErrorCode.INVALID_REQUEST, str(error))
        else:
            for key in keys:
                admin_call.open[key].is_sent = True

    def _find(self, target: Target, now_ms: float) -> _Found:
        view = self._metadata.view
        match target:
            case AnyBroker():
                return self._connections.least_loaded(now_ms) or "no broker could be connected to"
            case Controller():
                return self._to(view.controller, "the controller", now_ms)
            case CoordinatorTarget():
                route = self._coordinators.route(target.key, now_ms)
                return route or f"the coordinator of {target.key.name!r} is not known or not connected to"
            case Leader():
                return self._leader(target.topic_partition, now_ms)
            case NodeTarget():
                if target.node_id in view.brokers or self._metadata.updates == 0:
                    return self._to(target.node_id, f"broker {target.node_id}", now_ms)
                known = ", ".join(map(str, sorted(view.brokers)))
                message = f"there is no broker {target.node_id} in the cluster, only {known}"
                return Refusal(ErrorCode.BROKER_NOT_AVAILABLE, message)

    def _to(self, node_id: int | None, title: str, now_ms: float) -> Route | str:
        if node_id is None or node_id not in self._metadata.view.brokers:
            self._metadata.outdated()
            return f"no broker says where {title} is"
        route = Route(node_id, DATA)
        return route if self._connections.ready(route, now_ms) else f"broker {node_id} could not be connected to"

    def _leader(self, topic_partition: TopicPartition, now_ms: float) -> _Found:
        view = self._metadata.view
        topic = view.topics.get(topic_partition.topic)
        if topic is not None and topic.error != ErrorCode.NONE:
            return Refusal(topic.error)
        if topic is not None and view.partition(topic_partition) is None:
            message = f"{topic_partition.topic} has {len(topic.partitions)} partitions, counted from 0"
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return self._to(view.leader(topic_partition), f"the leader of {topic_partition}", now_ms)

    def _topics(self) -> list[str]:
        """Return the topics whose leaders the open questions need."""
        targets = (admin_call.ask.target(key) for admin_call in self._admin_calls for key in admin_call.open)
        return [target.topic_partition.topic for target in targets if isinstance(target, Leader)]

    # Answers

    def _answered(
        self, admin_call: AdminCall[Any, Any], keys: Sequence[Any], response: Any, version: int, now_ms: float
    ) -> None:
        outcomes = dict(admin_call.ask.read(response, keys, version))
        for key in keys:
            item = admin_call.open.get(key)
            if item is None:
                continue  # It has timed out.
            item.is_sent = False
            if key not in outcomes:
                admin_call.refused(key, ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer does not mention it")
            elif isinstance(outcomes[key], Refusal):
                self._refused(admin_call, key, item, outcomes[key], now_ms)
            else:
                admin_call.found(key, outcomes[key])

    def _refused(self, admin_call: AdminCall[Any, Any], key: Any, item: Item, refusal: Refusal, now_ms: float) -> None:
        target = admin_call.ask.target(key)
        code = refusal.code
        if code in _WRONG_COORDINATOR and isinstance(target, CoordinatorTarget):
            self._coordinators.forget(target.key)
        if code in _WRONG_VIEW and isinstance(target, Leader | Controller | NodeTarget):
            item.outdated_at = self._metadata.updates
        if code in _DOES_NOT_EXIST and not is_authoritative(target):
            item.not_found_count += 1
            may_change = item.not_found_count <= NOT_FOUND_RETRIES_MAX
        else:
            may_change = family_of(code) is Family.RETRIABLE and code not in _ANSWERS
        if may_change:
            item.why = f"the last answer was {code.name}{f' ({refusal.message})' if refusal.message else ''}"
            item.retry = item.retry.failed(now_ms)
        else:
            admin_call.refused(key, code, refusal.message)

    def _lost(self, admin_call: AdminCall[Any, Any], keys: Sequence[Any], reason: str, now_ms: float) -> None:
        self._metadata.outdated()
        for key in keys:
            item = admin_call.open.get(key)
            if item is not None:
                item.is_sent, item.was_lost, item.why = False, True, reason
                item.retry = item.retry.failed(now_ms)
                target = admin_call.ask.target(key)
                if isinstance(target, CoordinatorTarget):
                    self._coordinators.forget(target.key)

    def _no_coordinator(self, key: CoordinatorKey, error: KafkaError) -> None:
        for admin_call in self._admin_calls:
            for item_key in tuple(admin_call.open):
                if admin_call.ask.target(item_key) == CoordinatorTarget(key):
                    admin_call.refused(item_key, error.code, error.message)
