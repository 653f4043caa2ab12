"""A Kafka cluster as the pipeline sees it: topics, offsets, groups and records, asked for and waited for.

Blocking, with a thread of its own, made where it is used: in the planner, in a task, in the driver. A forked process
makes its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from random import SystemRandom
from types import TracebackType
from typing import Any, Final

from semel import __version__
from semel.client.consumer_config import ConsumerConfig, IsolationLevel
from semel.client.driver import Driver
from semel.client.loop_thread import LoopThread
from semel.client.machine.cluster_view import ClusterView
from semel.client.machine.list_offsets import EARLIEST, LATEST
from semel.client.machine.promise import Promise
from semel.client.security.tls import network_for
from semel.client.values import OffsetAndMetadata, OffsetAndTimestamp
from semel.clock import SystemClock
from semel.errors import ErrorCode, UnsupportedVersion
from semel.spark.asking import Anybody, AskingMachine, CoordinatorOf, LeaderOf, Question
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic

_STABLE_SINCE: Final = 7
_GROUPS_SINCE: Final = 8
_NAMES_UNTIL_OFFSET_FETCH: Final = 9
_NAMES_UNTIL_FETCH: Final = 12
_NOT_COMMITTED: Final = -1
_FETCH_WAIT_MS: Final = 500
_SHARED: Final = ("bootstrap_servers", "security_", "sasl_", "ssl_")


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that were asked for, with the number of their partitions."""

    cluster_id: str | None
    partition_counts: Mapping[str, int]
    missing: tuple[str, ...]


class Cluster:
    """``settings`` are those of a consumer."""

    def __init__(self, *, isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED, **settings: Any) -> None:
        self._config = ConsumerConfig.load(settings)
        self._clock = SystemClock()
        self._isolation_level = isolation_level
        self._guard = threading.RLock()
        self._machine = AskingMachine(self._config.client, isolation_level, SystemRandom(), version=__version__)
        self._thread = LoopThread("cluster")
        self._driver = self._thread.run(self._start())

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_running:
            with self._guard:
                self._machine.shut(self._clock.monotonic_ms())
            self._thread.run(self._driver.close())
            self._thread.stop()

    # Topics

    def topics(self, names: Iterable[str] | None = None) -> Topics:
        """These topics, or all but the internal ones. Asking creates none."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response: MetadataResponse = self._ask(
            Question(
                Anybody(),
                ApiKey.METADATA,
                lambda version, view: MetadataRequest(topics=wanted, allow_auto_topic_creation=False),
                code_of=_whole_topics,
            )
        )
        known = {
            topic.name: len(topic.partitions)
            for topic in response.topics
            if topic.name is not None and topic.error_code == ErrorCode.NONE and not topic.is_internal
        }
        missing = tuple(topic.name or "" for topic in response.topics if topic.error_code != ErrorCode.NONE)
        return Topics(response.cluster_id, known, missing)

    # Offsets

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offset, for read_committed."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._guard:
            promise = self._machine.find_offsets(timestamps, self._clock.monotonic_ms())
        found: dict[TopicPartition, OffsetAndTimestamp | None]
        found = self._begin(promise).result(self._config.default_api_timeout_ms / 1000)
        return found

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far the group has read, once no transaction can change that; nothing for what it never committed."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        wanted = [OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()]
        many: Any = wanted  # From version 8 on the topics of a group have the same fields under another name.

        def build(version: int, view: ClusterView) -> OffsetFetchRequest:
            if version < _GROUPS_SINCE:
                return OffsetFetchRequest(group_id=group_id, topics=wanted, require_stable=True)
            return OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group_id, topics=many)], require_stable=True
            )

        response = self._ask(
            Question(
                CoordinatorOf(group_id),
                ApiKey.OFFSET_FETCH,
                build,
                code_of=_offset_fetch_code,
                version_min=_STABLE_SINCE,
                version_max=_NAMES_UNTIL_OFFSET_FETCH,
            )
        )
        return {
            TopicPartition(topic.name, partition.partition_index): OffsetAndMetadata(
                partition.committed_offset, partition.metadata or ""
            )
            for topic in _fetched_topics(response)
            for partition in topic.partitions
            if partition.committed_offset != _NOT_COMMITTED
        }

    def member_count(self, group_id: str) -> int | None:
        """How many members the group has now; ``None`` if the broker does not say."""
        question = Question(
            CoordinatorOf(group_id),
            ApiKey.DESCRIBE_GROUPS,
            lambda version, view: DescribeGroupsRequest(groups=[group_id]),
            code_of=_described_code,
        )
        try:
            response = self._ask(question)
        except UnsupportedVersion:
            return None
        return len(response.groups[0].members)

    @property
    def transaction_version(self) -> int:
        """What the cluster's brokers agreed on; 0 before anything was asked."""
        return self._machine.features.get("transaction.version", 0)

    # Records

    def fetch(self, topic_partition: TopicPartition, offset: int) -> Future[PartitionData]:
        """What the log has from here on. Errors that waiting does not cure are in the answer's code."""
        topic, partition = topic_partition

        def build(version: int, view: ClusterView) -> FetchRequest:
            asked = FetchPartition(
                partition, fetch_offset=offset, partition_max_bytes=self._config.max_partition_fetch_bytes
            )
            return FetchRequest(
                max_wait_ms=_FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=self._config.fetch_max_bytes,
                isolation_level=self._isolation_level,
                topics=[FetchTopic(topic, partitions=[asked])],
            )

        question = Question(
            LeaderOf(topic_partition), ApiKey.FETCH, build, code_of=_fetch_code, version_max=_NAMES_UNTIL_FETCH
        )
        response = self._begin(self._machine_ask(question))
        answer: Future[PartitionData] = Future()

        def told(settled: Future[Any]) -> None:
            error = settled.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(settled.result().responses[0].partitions[0])

        response.add_done_callback(told)
        return answer

    # Inside

    def _offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self.offsets_for_times(timestamps)
        return {topic_partition: at.offset for topic_partition, at in found.items() if at is not None}

    def _ask(self, question: Question) -> Any:
        return self._begin(self._machine_ask(question)).result()

    def _machine_ask(self, question: Question) -> Promise[Any]:
        self._thread.check()
        with self._guard:
            return self._machine.ask(question, self._clock.monotonic_ms(), self._config.default_api_timeout_ms)

    def _begin(self, promise: Promise[Any]) -> Future[Any]:
        future: Future[Any] = Future()

        def told(settled: Promise[Any]) -> None:
            if settled.error is not None:
                future.set_exception(settled.error)
            else:
                future.set_result(settled.value)

        with self._guard:
            promise.then(told)
        self._driver.wake()
        return future

    async def _start(self) -> Driver:
        driver = Driver(
            self._machine,
            network=network_for(self._config.client.security),
            clock=self._clock,
            guard=self._guard,
            turned=_nothing,
        )
        driver.wake()
        return driver


def client_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a producer's settings, those that say where the cluster is and how one is let in."""
    return {name: value for name, value in settings.items() if name.startswith(_SHARED)}


def _nothing() -> None:
    pass


def _whole_topics(response: MetadataResponse) -> int:
    """A topic that is just being created is waited for; one that does not exist is an answer."""
    wait_for = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return next((topic.error_code for topic in response.topics if topic.error_code in wait_for), ErrorCode.NONE)


def _fetched_topics(response: Any) -> Any:
    return response.groups[0].topics if response.groups else response.topics


def _offset_fetch_code(response: Any) -> int:
    code = response.groups[0].error_code if response.groups else response.error_code
    codes = [partition.error_code for topic in _fetched_topics(response) for partition in topic.partitions]
    return int(next((one for one in (code, *codes) if one != ErrorCode.NONE), ErrorCode.NONE))


def _described_code(response: Any) -> int:
    code = int(response.groups[0].error_code)
    return ErrorCode.NONE if code == ErrorCode.GROUP_ID_NOT_FOUND else code


def _fetch_code(response: Any) -> int:
    if response.error_code != ErrorCode.NONE:
        return int(response.error_code)
    code = int(response.responses[0].partitions[0].error_code)
    return ErrorCode.NONE if code == ErrorCode.OFFSET_OUT_OF_RANGE else code
