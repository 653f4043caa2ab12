"""The cluster: its brokers, the replicas on their disks, and the features that they support."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from semel.client.admin.admin_requests import AdminRequests, named_broker, this_broker
from semel.client.admin.partitions import by_topic
from semel.client.admin.results import Results
from semel.client.machine.admin.ask import CLUSTER, AnyBroker, Ask, outcome
from semel.client.offsets import PartitionLike, as_partition
from semel.errors import ErrorCode, KafkaError, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from semel.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)

_SOFTWARE_NAME: Final = "semel"


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of the cluster. Changes are requested from ``controller_id``; with KRaft it may be any broker."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """One replica on disk. ``offset_lag``: how far it is behind. ``is_future``: it is being moved here."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """One folder of a broker. ``error`` says why it cannot be used, ``total_bytes`` is the disk's."""

    path: str
    error: KafkaError | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: Mapping[TopicPartition, ReplicaSize]

    @property
    def size_bytes(self) -> int:
        """The size of all replicas together."""
        return sum(replica.size_bytes for replica in self.replicas.values())


@dataclass(frozen=True, slots=True)
class Features:
    """The levels of features that the brokers support (``supported``: from, to) and that are in use (``finalized``)."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    finalized_epoch: int | None


class Cluster:
    """``admin.cluster``: describe the brokers, their log folders and the features."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe(self) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers.

        print([f"{broker.host}:{broker.port}" for broker in (await admin.cluster.describe()).brokers])
        """
        return await self._requests.one(_DESCRIBE, CLUSTER)

    async def log_dirs(
        self, brokers: Iterable[int] | None = None, *, partitions: Iterable[PartitionLike] | None = None
    ) -> Results[int, dict[str, LogDir]]:
        """Return the log folders of each broker, by path, with the size of each replica; by default of all brokers.

        for broker_id, dirs in (await admin.cluster.log_dirs()).all().items():
            print(broker_id, sum(log_dir.size_bytes for log_dir in dirs.values()))
        """
        call = self._requests.begin()
        if brokers is None:
            brokers = [broker.broker_id for broker in (await call.one(_DESCRIBE, CLUSTER)).brokers]
        return await call.many(_log_dirs(None if partitions is None else map(as_partition, partitions)), brokers)

    async def features(self) -> Features:
        """Return the supported and finalized features: ``transaction.version`` 2 is transactions V2.

        print((await admin.cluster.features()).finalized.get("transaction.version"))
        """
        return await self._requests.one(_FEATURES, CLUSTER)


def _described(response: DescribeClusterResponse) -> ClusterDescription:
    brokers = (
        BrokerDescription(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers
    )
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        tuple(sorted(brokers, key=lambda broker: broker.broker_id)),
    )


_DESCRIBE: Ask[str, ClusterDescription] = Ask(
    ApiKey.DESCRIBE_CLUSTER,
    target=lambda key: AnyBroker(),
    build=lambda keys, version: DescribeClusterRequest(),
    read=lambda response, keys, version: [
        (keys[0], outcome(_described(response), response.error_code, response.error_message))
    ],
)


def _log_dirs(partitions: Iterable[TopicPartition] | None) -> Ask[int, dict[str, LogDir]]:
    topics = (
        None
        if partitions is None
        else [DescribableLogDirTopic(topic, indexes) for topic, indexes in by_topic(partitions).items()]
    )
    return Ask(
        ApiKey.DESCRIBE_LOG_DIRS,
        target=this_broker,
        build=lambda brokers, version: DescribeLogDirsRequest(topics),
        read=lambda response, brokers, version: [
            (
                brokers[0],
                outcome({result.log_dir: _log_dir(result) for result in response.results}, response.error_code),
            )
        ],
        name=named_broker,
        is_single=True,
    )


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    code = named(result.error_code)
    return LogDir(
        result.log_dir,
        None if code == ErrorCode.NONE else KafkaError(code, f"the folder {result.log_dir} cannot be used"),
        result.total_bytes,
        result.usable_bytes,
        {
            TopicPartition(topic.name, partition.partition_index): ReplicaSize(
                partition.partition_size, partition.offset_lag, partition.is_future_key
            )
            for topic in result.topics
            for partition in topic.partitions
        },
    )


def _features(response: ApiVersionsResponse) -> Features:
    return Features(
        {feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features},
        {feature.name: feature.max_version_level for feature in response.finalized_features},
        response.finalized_features_epoch,
    )


_FEATURES: Ask[str, Features] = Ask(
    ApiKey.API_VERSIONS,
    target=lambda key: AnyBroker(),
    build=lambda keys, version: ApiVersionsRequest(_SOFTWARE_NAME, "0"),
    read=lambda response, keys, version: [(keys[0], outcome(_features(response), response.error_code))],
    version_min=3,
)
