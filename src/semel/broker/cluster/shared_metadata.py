"""Opens the metadata that several brokers share, when a broker starts, and checks that the broker fits the cluster.

The first broker of a cluster determines the cluster id and the finalized levels of the features; the others use them. A
broker that does not support these levels does not join.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.features import SUPPORTED
from semel.errors import StorageError
from semel.log.disk import Disk
from semel.log.durability.checkpoints import META_PROPERTIES_FILE, MetaProperties
from semel.log.recovery.identity import METADATA_FILES, trace_of_logs
from semel.metadata import paths
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.image import Broker, ClusterImage
from semel.metadata.store import MetadataStore, VersionConflict, compare_and_set
from semel.metadata.zookeeper.session import ZooKeeperSession
from semel.metadata.zookeeper.store import ZooKeeperStore
from semel.types import kafka_uuid, random_uuid

if TYPE_CHECKING:
    from semel.log.directory import LogDirectory

OpenSession: TypeAlias = Callable[[BrokerConfig], Awaitable[ZooKeeperSession]]

EPHEMERAL_FOLDERS: Final = ("/", paths.BROKERS)


async def kazoo_session(config: BrokerConfig) -> ZooKeeperSession:
    """Open a session with the ZooKeeper of ``zookeeper.connect``. Raises StorageError."""
    assert config.zookeeper_connect is not None
    return await open_kazoo_session(
        config.zookeeper_connect,
        timeout_s=config.zookeeper_session_timeout_ms / 1000,
        connect_s=config.zookeeper_connection_timeout_ms / 1000,
    )


async def open_kazoo_session(connect: str, *, timeout_s: float, connect_s: float) -> ZooKeeperSession:
    """Open a session with ZooKeeper. ``connect`` has the form of ``zookeeper.connect``. Raises StorageError."""
    try:
        from semel.metadata.zookeeper.kazoo_session import KazooSession
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        text = "zookeeper.connect needs kazoo, which is not installed: pip install 'semel[cluster]'"
        raise StorageError(text) from None
    session = KazooSession(connect, timeout_s=timeout_s)
    await session.start(timeout_s=connect_s)
    return session


async def open_store(session: ZooKeeperSession, config: BrokerConfig, random: Random) -> ZooKeeperStore:
    return await ZooKeeperStore.open(
        session,
        author=str(config.node_id),
        incarnation=f"{random.getrandbits(64):016x}",
        ephemeral_folders=EPHEMERAL_FOLDERS,
    )


async def read_cluster(store: MetadataStore, random: Random) -> ClusterMetadata:
    cluster = await ClusterMetadata.load(store, new_cluster_id=lambda: kafka_uuid(random_uuid(random)))
    cluster.follow()
    return cluster


async def agreed_features(store: MetadataStore, own: Mapping[str, int]) -> dict[str, int]:
    """Return the cluster's finalized feature levels: ``own`` if this is its first broker. Raises StorageError."""
    while (known := await store.get(paths.FEATURES)) is None:
        try:
            await compare_and_set(store, paths.FEATURES, paths.encode_features(own), None)
        except VersionConflict:
            continue  # Another broker was first.
    levels = paths.decode_features(known.value)
    for name, level in levels.items():
        supported = SUPPORTED.get(name)
        if supported is None or not supported.min_level <= level <= supported.max_level:
            raise StorageError(
                f"the cluster has agreed on {name}={level}, and this broker "
                + (f"supports {supported.min_level} to {supported.max_level}" if supported else "does not know it")
            )
    return levels


def refuse_empty_directory(path: str, disk: Disk, config: BrokerConfig, image: ClusterImage) -> None:
    """Raise StorageError if the data directory is empty and should contain partitions of which only this node has data.

    Its disk may be lost, or not mounted. To serve the partitions empty would lose all their records without an error.
    Partitions that have other in-sync replicas are copied again from those.
    """
    if disk.exists(f"{path}/{META_PROPERTIES_FILE}") or (disk.exists(path) and trace_of_logs(disk, path)):
        return
    if (known := image.brokers.get(config.node_id)) is not None:
        raise StorageError(node_id_taken_message(known, "new"))
    missing = [
        f"{topic.name}-{index}"
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if config.node_id in state.replicas and not set(state.isr) - {config.node_id}
    ]
    if missing:
        raise StorageError(
            f"{path} is empty, and {len(missing)} partitions of node {config.node_id} should be there, the first "
            f"{missing[0]}. Is its disk mounted? If it is lost, restore it from a backup, or start once with "
            "--accept-loss: partitions with one replica are served empty then, those of groups and transactions too; "
            "partitions with several wait for an unclean election"
        )


def node_id_taken_message(known: Broker, directory_id: str | None) -> str:
    return (
        f"node.id {known.node_id} is taken: {known.host}:{known.port} is registered with it, and has another data "
        f"directory ({known.directory_id}; this one is {directory_id}). Give each broker a node.id of its own; if that "
        "broker is gone for good, its registration ends with its session"
    )


def acquire_directory(
    logs: LogDirectory, disk: Disk, config: BrokerConfig, cluster_id: str, random: Random
) -> MetaProperties:
    """Lock the data directory, check that it is this cluster's, and return its properties. Raises StorageError."""
    own = MetaProperties(cluster_id, config.node_id, directory_id=kafka_uuid(random_uuid(random)))
    # A directory without meta.properties belongs to the cluster of zookeeper.connect.
    properties = logs.acquire(own, in_metadata=lambda: own if trace_of_logs(disk, logs.path) else None)
    if properties.cluster_id != cluster_id:
        raise StorageError(
            f"{logs.path} belongs to cluster {properties.cluster_id} according to its meta.properties, and the cluster "
            f"at zookeeper.connect={config.zookeeper_connect} is {cluster_id}. Give this broker the directory that it "
            "had, or an empty one. If that file is wrong, move it away: it is made again"
        )
    if properties.directory_id is None:
        if not any(disk.exists(f"{logs.path}/{name}") for name in METADATA_FILES):
            raise StorageError(
                f"{logs.path}/{META_PROPERTIES_FILE} does not have the id of its directory: it is damaged. Move it "
                "away: it is made again"
            )
        raise StorageError(
            f"{logs.path} is the directory of a cluster of one node, with its own metadata, and zookeeper.connect is "
            "set. Start without it, or give this broker an empty directory"
        )
    return properties
