"""``semel user bootstrap``: writes the first user into a cluster's metadata, without a broker.

If brokers require a password of every client, the first user must exist before they start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.opened_metadata import METADATA_FILE
from semel.clock import Clock
from semel.errors import StorageError
from semel.log.directory import LogDirectory
from semel.log.disk import Disk
from semel.log.durability.checkpoints import MetaProperties
from semel.log.worker import Worker
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.embedded import EmbeddedStore
from semel.metadata.security.user_changes import SECRET_BYTES, Upsertion, alter_users
from semel.metadata.store_files import identity_in
from semel.security.sasl.scram import salted_password
from semel.types import kafka_uuid, random_uuid
from semel.wire.codes import ScramMechanism

if TYPE_CHECKING:
    from semel.broker.cluster.shared_metadata import OpenSession

SALT_BYTES: Final = 32


async def bootstrap_user(
    config: BrokerConfig,
    user: str,
    password: str,
    mechanisms: Collection[ScramMechanism],
    *,
    iterations: int,
    disk: Disk,
    clock: Clock,
    random: Random,
    make_worker: Callable[[str], Worker],
    open_session: OpenSession | None = None,
) -> None:
    """Give a user this password. Raises ``StorageError`` if a broker uses the data directory, if the metadata is
    damaged, or if the user is refused."""
    if config.zookeeper_connect is None:
        opened = _own_metadata(config, disk, clock, random, make_worker)
    else:
        opened = _shared_metadata(config, random, open_session)
    async with opened as cluster:
        for mechanism in mechanisms:
            salt = random.randbytes(SALT_BYTES)
            salted = salted_password(mechanism, password.encode(), salt, iterations)
            wish = Upsertion(user, mechanism, iterations, salt, salted)
            decide = partial(alter_users, deletions=[], upsertions=[wish], new_secret=random.randbytes(SECRET_BYTES))
            (result,) = (await cluster.change(decide)).results
            if result.refusal is not None:
                raise StorageError(f"user {user!r}: {result.refusal.message}")


@asynccontextmanager
async def _own_metadata(
    config: BrokerConfig, disk: Disk, clock: Clock, random: Random, make_worker: Callable[[str], Worker]
) -> AsyncIterator[ClusterMetadata]:
    """Yield the metadata of a cluster with one broker. Its data directory is created if it does not exist."""
    (folder,) = config.log_dirs
    logs = LogDirectory(
        folder,
        disk=disk,
        clock=clock,
        loop=asyncio.get_running_loop(),
        make_worker=make_worker,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
    )
    try:
        path = f"{logs.path}/{METADATA_FILE}"
        own = MetaProperties(kafka_uuid(random_uuid(random)), config.node_id)
        properties = logs.acquire(own, in_metadata=lambda: identity_in(disk, path, node_id=config.node_id))
        if properties.directory_id is not None:
            raise StorageError(
                f"{folder} belongs to a cluster of several brokers: set zookeeper.connect as they have it"
            )
        worker = make_worker("semel-metadata")
        store = EmbeddedStore.open(disk, path, worker)
        try:
            cluster = await ClusterMetadata.load(store, new_cluster_id=lambda: properties.cluster_id)
            yield cluster
            await cluster.close()
        finally:
            await store.close()
            worker.stop()
    finally:
        logs.kill()


@asynccontextmanager
async def _shared_metadata(
    config: BrokerConfig, random: Random, open_session: OpenSession | None
) -> AsyncIterator[ClusterMetadata]:
    """Yield the metadata of a cluster with several brokers, from ZooKeeper. The brokers may run."""
    from semel.broker.cluster import shared_metadata

    session = await (open_session or shared_metadata.kazoo_session)(config)
    try:
        store = await shared_metadata.open_store(session, config, random)
        cluster = await shared_metadata.read_cluster(store, random)
        yield cluster
        await cluster.close()
        await store.close()
    finally:
        session.abandon()
