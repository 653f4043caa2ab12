"""The first user of a cluster that shares its metadata in ZooKeeper."""

from __future__ import annotations

from random import Random

import pytest

from semel.broker.config.broker_config import BrokerConfig
from semel.cli.user_bootstrap import bootstrap_user
from semel.errors import StorageError
from semel.log.worker import Worker
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.security.image import SecurityImage
from semel.security.sasl import scram
from semel.testing.zookeeper.session import ModelSession
from semel.wire.codes import ScramMechanism
from tests.unit.metadata.zookeepers import World, with_zookeeper

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
CONFIG = BrokerConfig.load(overrides={"zookeeper.connect": "zk-1:2181"})


async def bootstrap(world: World, user: str, password: str, *, seed: int = 1) -> None:
    async def open_session(config: BrokerConfig) -> ModelSession:
        return await world.session(f"command {seed}")

    def make_worker(name: str) -> Worker:
        raise AssertionError("there is no data directory")

    host = world.simulation.host("command")
    await bootstrap_user(
        CONFIG,
        user,
        password,
        (SHA_256, SHA_512),
        iterations=4096,
        disk=host.disk,
        clock=host.clock,
        random=Random(seed),
        make_worker=make_worker,
        open_session=open_session,
    )


async def read(world: World) -> SecurityImage:
    store = await world.store("reader")
    security = (await ClusterMetadata.load(store, new_cluster_id=lambda: "none")).image.security
    assert security is not None
    return security


def test_a_user_gets_passwords_and_the_cluster_its_secret() -> None:
    async def scenario(world: World) -> None:
        await bootstrap(world, "admin", "secret")
        security = await read(world)
        assert list(security.users) == ["admin"]
        for mechanism, kept in security.users["admin"].items():
            salted = scram.salted_password(mechanism, b"secret", kept.salt, 4096)
            assert kept.stored_key == scram.stored_key(mechanism, scram.client_key(mechanism, salted))
        assert len(security.users["admin"]) == 2
        await bootstrap(world, "admin", "another", seed=2)
        again = await read(world)
        assert again.user_secret == security.user_secret
        assert again.users["admin"] != security.users["admin"]

    with_zookeeper(scenario)


def test_a_user_that_cannot_be_is_refused() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(StorageError, match="Username must not be empty"):
            await bootstrap(world, "", "secret")

    with_zookeeper(scenario)
