"""Opens the metadata of a cluster when a broker starts: its own, in the data directory, or shared, in ZooKeeper.

Both ways return the metadata store, the image of the cluster read from it, and the finalized versions of the features.
They lock the data directory too, because it must belong to the cluster that the metadata describe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.features import GROUP_VERSION, TRANSACTION_VERSION
from semel.errors import StorageError
from semel.log.directory import LogDirectory
from semel.log.disk import Disk
from semel.log.durability.checkpoints import MetaProperties
from semel.log.worker import Worker
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.embedded import EmbeddedStore
from semel.metadata.store_files import identity_in
from semel.types import kafka_uuid, random_uuid

if TYPE_CHECKING:
    from semel.broker.cluster.shared_metadata import OpenSession
    from semel.metadata.zookeeper.store import ZooKeeperStore

METADATA_FILE: Final = "metadata"


@dataclass(frozen=True, slots=True)
class OpenedMetadata:
    store: EmbeddedStore | ZooKeeperStore
    cluster: ClusterMetadata
    feature_levels: Mapping[str, int]
    worker: Worker | None

    def abandon(self) -> None:
        if self.worker is not None:
            self.worker.kill()
        self.store.abandon()


@dataclass(frozen=True, slots=True)
class SharedMetadata(OpenedMetadata):
    store: ZooKeeperStore
    directory_id: str


async def open_own_metadata(
    config: BrokerConfig,
    logs: LogDirectory,
    *,
    disk: Disk,
    random: Random,
    make_worker: Callable[[str], Worker],
    closers: list[Callable[[], object]],
) -> OpenedMetadata:
    """Open the metadata of a cluster of one broker, in the data directory. Functions that close them are added to
    ``closers``. Raises StorageError."""
    path = f"{logs.path}/{METADATA_FILE}"
    own = MetaProperties(kafka_uuid(random_uuid(random)), config.node_id)
    properties = logs.acquire(own, in_metadata=lambda: identity_in(disk, path, node_id=config.node_id))
    _check_node_id(properties, logs, config)
    worker = make_worker("semel-metadata")
    store = EmbeddedStore.open(disk, path, worker, release_reserve=logs.release_reserve)
    closers += [store.abandon, worker.kill]
    cluster = await ClusterMetadata.load(store, new_cluster_id=lambda: properties.cluster_id)
    if cluster.image.cluster_id != properties.cluster_id:
        raise StorageError(
            f"{logs.path} holds the metadata of cluster {cluster.image.cluster_id}, and its meta.properties says "
            f"{properties.cluster_id}. If that file is wrong, move it away: it is made again from the metadata"
        )
    return OpenedMetadata(store, cluster, _feature_levels(config), worker)


async def open_shared_metadata(
    config: BrokerConfig,
    logs: LogDirectory,
    *,
    disk: Disk,
    random: Random,
    open_session: OpenSession | None,
    accept_loss: bool,
    closers: list[Callable[[], object]],
) -> SharedMetadata:
    """Open the metadata of a cluster of several brokers, in ZooKeeper. Functions that close them are added to
    ``closers``. Raises StorageError."""
    from semel.broker.cluster import shared_metadata

    session = await (open_session or shared_metadata.kazoo_session)(config)
    closers.append(session.abandon)
    store = await shared_metadata.open_store(session, config, random)
    closers.append(store.abandon)
    cluster = await shared_metadata.read_cluster(store, random)
    if not accept_loss:
        shared_metadata.refuse_empty_directory(logs.path, disk, config, cluster.image)
    properties = shared_metadata.acquire_directory(logs, disk, config, cluster.image.cluster_id, random)
    _check_node_id(properties, logs, config)
    levels = await shared_metadata.agreed_features(store, _feature_levels(config))
    assert properties.directory_id is not None
    return SharedMetadata(store, cluster, levels, None, properties.directory_id)


def _check_node_id(properties: MetaProperties, logs: LogDirectory, config: BrokerConfig) -> None:
    if properties.node_id != config.node_id:
        raise StorageError(
            f"{logs.path} belongs to node {properties.node_id} according to its meta.properties; node.id is "
            f"{config.node_id}. If that file is wrong, move it away: it is made again from the metadata"
        )


def _feature_levels(config: BrokerConfig) -> dict[str, int]:
    """Return the levels of the features in this broker's settings. In a cluster of one they are the finalized ones."""
    return {GROUP_VERSION: config.group_version, TRANSACTION_VERSION: config.transaction_version}
