"""The client's view of the cluster (Metadata): which broker is asked for it, when, and about which topics.

The brokers are asked when something is missing or was found wrong, and at the latest after metadata.max.age.ms. One
request is in flight at a time, and after a request that did not help the next one waits for retry.backoff.ms.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from semel.client.config.common import ClientConfig
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.cluster_view import ClusterView
from semel.client.machine.connection.connections import Connections, Route
from semel.client.machine.connection.retry import Retry
from semel.clock import NEVER
from semel.errors import ErrorCode
from semel.types import Address, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = logging.getLogger(__name__)


class Metadata:
    """The current ``view``, and the requests that renew it.

    ``idle_ms`` is how long after its last use a topic is still requested; ``None``: until ``retain`` drops it.
    """

    def __init__(
        self,
        config: ClientConfig,
        connections: Connections,
        random: Random,
        *,
        lane: int,
        idle_ms: int | None = None,
        may_create_topics: bool = True,
    ) -> None:
        self._config = config
        self._connections = connections
        self._lane = lane
        self._idle_ms = idle_ms
        self._may_create_topics = may_create_topics
        self._retry = Retry.of(config, random)
        self._wanted: dict[str, float] = {}
        self._wants_all = False
        self._asking = False
        self._asked: tuple[str, ...] = ()
        self._outdated = True
        self._updated_ms = 0.0
        self._unanswered_since_ms: float | None = None
        self.updates = 0
        """How many responses have updated the view, for callers that wait for the next one."""
        self.view = ClusterView()
        self._bootstrap(0.0)
        connections.on_failed = self.outdated

    def want(self, topic: str, now_ms: float) -> None:
        """Keep this topic in the view from now on."""
        if topic not in self._wanted:
            self.outdated()
            self._retry = self._retry.at(0.0)  # No request has named it yet, so no request has failed.
        self._wanted[topic] = now_ms

    def retain(self, topics: Iterable[str], now_ms: float) -> None:
        """Keep these topics in the view, and no others."""
        names = dict.fromkeys(topics)
        for gone in [name for name in self._wanted if name not in names]:
            self.forget(gone)
        for name in names:
            self.want(name, now_ms)

    def want_all(self, *, wanted: bool) -> None:
        """Set whether all topics of the cluster are requested. Then no request names a topic, so none is created."""
        if wanted and not self._wants_all:
            self.outdated()
            self._retry = self._retry.at(0.0)
        self._wants_all = wanted

    def forget(self, topic: str) -> None:
        """Remove a topic that is no longer needed."""
        self._wanted.pop(topic, None)
        if not self._wants_all:
            self.view = self.view.without(topic)

    @property
    def next_update(self) -> int:
        """The value of ``updates`` after the response to a request that is sent after this call."""
        return self.updates + 1 + self._asking

    def outdated(self) -> None:
        """Request new metadata as soon as the backoff allows: something in the view was found wrong or missing."""
        self._outdated = True

    def leader_moved(
        self,
        topic_partition: TopicPartition,
        leader: int,
        leader_epoch: int,
        brokers: Mapping[int, Address],
        now_ms: float,
    ) -> None:
        """Store a partition's leader that came with the error of a broker that does not lead it (KIP-951)."""
        view = self.view.with_leader(topic_partition, leader, leader_epoch, brokers)
        if view is not self.view:
            self.view = view
            self._connections.set_addresses(view.brokers, now_ms)

    def broker_found(self, node_id: int, address: Address, now_ms: float) -> None:
        """Store the address of a broker that another broker has named."""
        if self.view.brokers.get(node_id) != address:
            self.view = replace(self.view, brokers={**self.view.brokers, node_id: address})
            self._connections.set_addresses(self.view.brokers, now_ms)

    def poll(self, now_ms: float) -> None:
        """Send a request, if one is due and a broker is ready."""
        if self._asking:
            return
        self._expire(now_ms)
        if now_ms < self._due_ms():
            return
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = now_ms
        if now_ms >= self._unanswered_since_ms + self._config.metadata_recovery_rebootstrap_trigger_ms:
            log.info("no known broker has answered for long: asking bootstrap.servers again")
            self._bootstrap(now_ms)
            self._unanswered_since_ms = now_ms
        route = self._connections.least_loaded(now_ms, self._lane)
        if route is not None:
            self._ask(route, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        due_ms = NEVER if self._asking else self._due_ms()
        # Once it is due, only a broker that becomes ready is missing, and that is an event.
        return due_ms if due_ms > now_ms else NEVER

    def _due_ms(self) -> float:
        due_ms = self._retry.due_ms
        return due_ms if self._outdated else max(due_ms, self._updated_ms + self._config.metadata_max_age_ms)

    def _ask(self, route: Route, now_ms: float) -> None:
        topics = self._asked = tuple(self._wanted)
        wants_all = self._wants_all
        self._asking, self._outdated = True, False
        self._connections.send(
            route,
            Call(
                ApiKey.METADATA,
                build=lambda version: MetadataRequest(
                    topics=None if wants_all else [MetadataRequestTopic(name=name) for name in topics],
                    allow_auto_topic_creation=self._may_create_topics,
                ),
                answered=lambda response, version, at_ms: self._answered(response, wants_all, at_ms),
                lost=self._lost,
            ),
            now_ms,
        )

    def _answered(self, response: Any, is_all: bool, now_ms: float) -> None:
        assert isinstance(response, MetadataResponse)
        self._asking = False
        self._unanswered_since_ms = None
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._bootstrap(now_ms)
            self._failed(now_ms)
            return
        if not response.brokers:
            self._failed(now_ms)  # A broker that has just started may not even list itself.
            return
        self.view = self.view.updated(response)
        if is_all:
            present = {topic.name for topic in response.topics}
            for gone in [name for name in self.view.topics if name not in present]:
                self.view = self.view.without(gone)
        self.updates += 1
        self._updated_ms = now_ms
        self._connections.set_addresses(self.view.brokers, now_ms)
        if any(name in self._wanted and not self._is_complete(name) for name in self._asked):
            self._failed(now_ms)
        else:
            # What was found wrong while this was in flight may be right by now; a new topic must be requested at once.
            is_new = any(name not in self._asked for name in self._wanted)
            pause_ms = 0 if is_new else self._config.retry_backoff_ms
            self._retry = self._retry.succeeded().at(now_ms + pause_ms)

    def _is_complete(self, topic: str) -> bool:
        """Whether every partition has a leader with a known address: a broker with old metadata may not have it."""
        view, brokers = self.view.topics.get(topic), self.view.brokers
        return view is not None and bool(view.partitions) and all(one.leader in brokers for one in view.partitions)

    def _lost(self, reason: str, now_ms: float) -> None:
        self._asking = False
        self._failed(now_ms)

    def _failed(self, now_ms: float) -> None:
        self._outdated = True
        self._retry = self._retry.failed(now_ms)

    def _bootstrap(self, now_ms: float) -> None:
        """Replace the brokers by the addresses of bootstrap.servers, which get negative numbers."""
        brokers = {-1 - index: address for index, address in enumerate(self._config.bootstrap_servers)}
        self.view = ClusterView(brokers, self.view.topics, self.view.topic_names)
        self._connections.set_addresses(brokers, now_ms)

    def _expire(self, now_ms: float) -> None:
        if self._idle_ms is not None:
            for name in [name for name, used_ms in self._wanted.items() if now_ms >= used_ms + self._idle_ms]:
                self.forget(name)
