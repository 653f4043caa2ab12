"""One request at a time, asked of whom it concerns until it is answered: a client machine without records.

It is what the planner and the driver need beside a producer: topics, offsets, groups. Whom to ask is a target: anybody,
the leader of a partition, the coordinator of a group. A retriable answer, a lost connection or a leader that moved
means to ask again, until the time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from semel.client.config import ClientConfig
from semel.client.consumer_config import IsolationLevel
from semel.client.machine.actions import Action
from semel.client.machine.backoff import Backoff
from semel.client.machine.calls import Call
from semel.client.machine.cluster_view import ClusterView
from semel.client.machine.connections import COORDINATION, DATA, Connections, Route
from semel.client.machine.coordinators import CoordinatorKey, Coordinators, CoordinatorType
from semel.client.machine.list_offsets import OffsetLookup
from semel.client.machine.metadata import Metadata
from semel.client.machine.produce_errors import OUTDATED_METADATA
from semel.client.machine.promise import Promise
from semel.client.values import OffsetAndTimestamp
from semel.errors import (
    AuthorizationFailed,
    ErrorCode,
    Family,
    KafkaError,
    TimedOut,
    UnsupportedVersion,
    client_error,
    family_of,
    named,
)
from semel.types import Buffer, TopicPartition
from semel.wire.apis import ApiKey

_NEVER: Final = float("inf")
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


@dataclass(frozen=True, slots=True)
class Anybody:
    pass


@dataclass(frozen=True, slots=True)
class LeaderOf:
    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class CoordinatorOf:
    group_id: str


Target: TypeAlias = Anybody | LeaderOf | CoordinatorOf


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask. ``code_of`` finds the error code of an answer that decides whether it is one."""

    target: Target
    api_key: ApiKey
    build: Callable[[int, ClusterView], object]
    code_of: Callable[[Any], int]
    version_min: int | None = None
    version_max: int | None = None


@dataclass(slots=True, eq=False)
class _Asked:
    question: Question
    deadline_ms: float
    promise: Promise[Any] = field(default_factory=Promise)
    on_wire: bool = False
    failures: int = 0
    retry_ms: float = 0.0
    waited_for: str = "a broker that can be asked"


class AskingMachine:
    def __init__(self, config: ClientConfig, isolation_level: IsolationLevel, random: Random, *, version: str) -> None:
        self._random = random
        self._connections = Connections(config, random, software_version=version)
        self._metadata = Metadata(config, self._connections, random, lane=COORDINATION, may_create_topics=False)
        self._coordinators = Coordinators(
            config, self._connections, self._metadata, random, lane=COORDINATION, refused=self._no_coordinator
        )
        self._lookup = OffsetLookup(config, isolation_level, self._connections, self._metadata, random)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._asked: list[_Asked] = []
        self._deadline_ms = _NEVER

    @property
    def features(self) -> Mapping[str, int]:
        return self._connections.features

    def ask(self, question: Question, now_ms: float, timeout_ms: float) -> Promise[Any]:
        """The answer, as its message."""
        asked = _Asked(question, now_ms + timeout_ms)
        if isinstance(question.target, LeaderOf):
            self._metadata.want(question.target.topic_partition.topic, now_ms)
        self._asked.append(asked)
        return asked.promise

    def find_offsets(
        self, timestamps: Mapping[TopicPartition, int], now_ms: float
    ) -> Promise[dict[TopicPartition, OffsetAndTimestamp | None]]:
        for topic, _ in timestamps:
            self._metadata.want(topic, now_ms)
        return self._lookup.find(timestamps)

    def shut(self, now_ms: float) -> None:
        error = client_error(ErrorCode.NETWORK_EXCEPTION, "the connection to the cluster was closed")
        self._lookup.fail(error)
        for asked in self._asked:
            asked.promise.fail(error)
        self._connections.close("closed", now_ms)

    # What the driver calls

    def poll(self, now_ms: float) -> list[Action]:
        try:
            self._connections.poll(now_ms)
            self._metadata.poll(now_ms)
            self._lookup.poll(now_ms)
            for asked in tuple(self._asked):
                self._pursue(asked, now_ms)
        except (UnsupportedVersion, AuthorizationFailed) as error:
            self._lookup.fail(error)
            for asked in self._asked:
                asked.promise.fail(error)
        self._asked = [asked for asked in self._asked if not asked.promise.settled]
        self._deadline_ms = min(
            self._connections.next_deadline_ms(now_ms),
            self._metadata.next_deadline_ms(now_ms),
            self._coordinators.next_deadline_ms(now_ms),
            self._lookup.next_deadline_ms(now_ms),
            min((asked.deadline_ms for asked in self._asked), default=_NEVER),
            min((asked.retry_ms for asked in self._asked if asked.retry_ms > now_ms), default=_NEVER),
        )
        return self._connections.take_actions()

    def connected(self, connection: int, now_ms: float) -> None:
        self._connections.connected(connection, now_ms)

    def received(self, connection: int, frame: Buffer, now_ms: float) -> None:
        self._connections.received(connection, frame, now_ms)

    def disconnected(self, connection: int, reason: str, now_ms: float) -> None:
        self._connections.disconnected(connection, reason, now_ms)

    def refused(self, reason: str) -> None:
        self._connections.refused(reason)

    def next_deadline_ms(self) -> float:
        return self._deadline_ms

    # Inside

    def _pursue(self, asked: _Asked, now_ms: float) -> None:
        if asked.promise.settled:
            return
        if now_ms >= asked.deadline_ms:
            text = f"{asked.question.api_key.name} was not answered in time, while waiting for {asked.waited_for}"
            asked.promise.fail(TimedOut(ErrorCode.REQUEST_TIMED_OUT, text))
            return
        if asked.on_wire or now_ms < asked.retry_ms:
            return
        route = self._route(asked, now_ms)
        if route is None:
            return
        question, view = asked.question, self._metadata.view
        call = Call(
            question.api_key,
            build=lambda version: question.build(version, view),
            answered=lambda response, version, at_ms: self._answered(asked, response, at_ms),
            lost=lambda reason, at_ms: self._lost(asked, reason, at_ms),
            version_min=question.version_min,
            version_max=question.version_max,
        )
        try:
            self._connections.send(route, call, now_ms)
            asked.on_wire = True
        except UnsupportedVersion as error:
            asked.promise.fail(error)

    def _route(self, asked: _Asked, now_ms: float) -> Route | None:
        match asked.question.target:
            case Anybody():
                return self._connections.least_loaded(now_ms, COORDINATION)
            case LeaderOf(topic_partition):
                asked.waited_for = f"the leader of {topic_partition}"
                leader = self._metadata.view.leader(topic_partition)
                if leader is None:
                    self._metadata.outdated()
                    self._later(asked, now_ms)
                    return None
                route = Route(leader, DATA)
                return route if self._connections.ready(route, now_ms) else None
            case CoordinatorOf(group_id):
                asked.waited_for = f"the coordinator of group {group_id!r}"
                return self._coordinators.route(_key(group_id), now_ms)

    def _answered(self, asked: _Asked, response: Any, now_ms: float) -> None:
        asked.on_wire = False
        code = asked.question.code_of(response)
        if code == ErrorCode.NONE:
            asked.promise.fulfil(response)
        elif family_of(code) is Family.RETRIABLE:
            asked.waited_for = f"another answer than {named(code).name}"
            self._moved(asked, code)
            self._later(asked, now_ms)
        else:
            text = f"{asked.question.api_key.name} was answered {named(code).name}"
            asked.promise.fail(client_error(code, text))

    def _lost(self, asked: _Asked, reason: str, now_ms: float) -> None:
        asked.on_wire = False
        asked.waited_for = reason
        self._moved(asked, ErrorCode.NOT_COORDINATOR)
        self._metadata.outdated()
        self._later(asked, now_ms)

    def _moved(self, asked: _Asked, code: int) -> None:
        if code in OUTDATED_METADATA:
            self._metadata.outdated()
        if code in _MOVED and isinstance(asked.question.target, CoordinatorOf):
            self._coordinators.forget(_key(asked.question.target.group_id))

    def _later(self, asked: _Asked, now_ms: float) -> None:
        asked.failures += 1
        asked.retry_ms = now_ms + self._backoff.delay_ms(asked.failures, self._random)

    def _no_coordinator(self, key: CoordinatorKey, error: KafkaError) -> None:
        for asked in self._asked:
            if asked.question.target == CoordinatorOf(key.name):
                asked.promise.fail(error)


def _key(group_id: str) -> CoordinatorKey:
    return CoordinatorKey(CoordinatorType.GROUP, group_id)
