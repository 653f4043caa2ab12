"""What one broker changes in the metadata is soon in the image of the others, as the same changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest

from semel.metadata.cluster import ClusterMetadata
from semel.metadata.controller import (
    MetadataDecision,
    NewPartitions,
    NewTopic,
    TopicPolicy,
    TopicResult,
    create_partitions,
    create_topics,
)
from semel.metadata.image import (
    Broker,
    BrokerConfigsAltered,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClusterImage,
    ControllerChanged,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from semel.testing.simulation import seeds
from tests.unit.metadata.zookeepers import SERVERS, World, with_zookeeper

STATE = PartitionState(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
HERE = Broker(1, "localhost", 9092)


def topic(name: str, *, number: int = 1, partitions: int = 1) -> Topic:
    return Topic(name, UUID(int=number), (STATE,) * partitions)


def on_broker_2(name: str) -> Topic:
    return Topic(name, UUID(int=1), (PartitionState(leader=2, leader_epoch=0, replicas=(2,), isr=(2,)),))


async def cluster(world: World, name: str) -> ClusterMetadata:
    loaded = await ClusterMetadata.load(await world.store(name, commit_timeout_s=600.0), new_cluster_id=lambda: name)
    loaded.follow()
    return loaded


async def change(metadata: ClusterMetadata, *changes: Change) -> None:
    await metadata.change(lambda image: MetadataDecision(changes, ()))


def same(one: ClusterImage, other: ClusterImage) -> bool:
    return (one.topics, one.topics_by_id, one.brokers, one.broker_configs, one.partition_count) == (
        other.topics,
        other.topics_by_id,
        other.brokers,
        other.broker_configs,
        other.partition_count,
    )


async def until_same(*clusters: ClusterMetadata) -> ClusterImage:
    while not all(same(each.image, clusters[0].image) for each in clusters):
        await asyncio.sleep(0.01)
    return clusters[0].image


def test_every_kind_of_change_arrives_as_itself() -> None:
    async def use(world: World) -> None:
        one, other = await cluster(world, "one"), await cluster(world, "other")
        assert one.image.cluster_id == other.image.cluster_id == "one"
        seen: list[Change] = []

        def note(before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
            seen.extend(changes)

        other.watch(note)
        made: list[Change] = [
            BrokerRegistered(HERE),
            TopicCreated(topic("a")),
            TopicAltered(topic("a", partitions=3)),
            BrokerConfigsAltered(None, {"x": "1"}),
            BrokerConfigsAltered(1, {"y": "2"}),
            ControllerChanged(1),
            ControllerChanged(None),
            TopicDeleted(topic("a", partitions=3)),
            TopicCreated(topic("a", number=2)),
            BrokerUnregistered(1),
        ]
        for each in made:
            await change(one, each)
            await until_same(one, other)
        registered = seen[0]
        assert isinstance(registered, BrokerRegistered)
        assert registered.broker.epoch > 0
        made[0] = BrokerRegistered(replace(HERE, epoch=registered.broker.epoch))
        assert seen == made
        await change(other, TopicCreated(topic("b", number=3)))
        assert (await until_same(one, other)).partition_count == 2
        assert seen == [*made, TopicCreated(topic("b", number=3))], "its own change once"

    with_zookeeper(use)


def test_a_broker_whose_session_expires_is_gone_from_the_images_of_the_others() -> None:
    async def use(world: World) -> None:
        dying, watching = await cluster(world, "dying"), await cluster(world, "watching")
        await change(dying, BrokerRegistered(HERE))
        await until_same(dying, watching)
        world.sessions["dying"].abandon()
        await asyncio.sleep(60)
        assert watching.image.brokers == {}

    with_zookeeper(use)


@pytest.mark.parametrize("grows", [False, True])
def test_no_new_partition_is_placed_on_a_broker_that_is_gone(grows: bool) -> None:
    async def use(world: World) -> None:
        dying = await cluster(world, "dying")
        creator = await world.store("creator", servers=("zk-2",))
        loaded = await ClusterMetadata.load(creator, new_cluster_id=lambda: "creator")
        loaded.follow()
        await change(dying, BrokerRegistered(HERE))
        await change(loaded, BrokerRegistered(replace(HERE, node_id=2)), TopicCreated(on_broker_2("a")))
        await until_same(dying, loaded)
        world.servers["zk-2"].cut_off()  # The creator is not told that broker 1 is gone.
        world.ensemble.expire(world.sessions["dying"].session_id)
        world.simulation.loop.call_later(1, world.servers["zk-2"].rejoin)

        def decide(image: ClusterImage) -> MetadataDecision[TopicResult]:
            if grows:
                return create_partitions(image, [NewPartitions("a", 3)], policy=TopicPolicy())
            return create_topics(image, [NewTopic("b", 2)], policy=TopicPolicy(), new_id=lambda: UUID(int=2))

        await loaded.change(decide)
        assert [state.leader for made in loaded.image.topics.values() for state in made.partitions] == [2, 2, 2]

    with_zookeeper(use)


@pytest.mark.parametrize("seed", seeds(10))
def test_images_are_equal_in_the_end_whatever_breaks(seed: int) -> None:
    async def use(world: World) -> None:
        names = ("one", "two", "three")
        clusters = [await cluster(world, name) for name in names]
        chance = world.simulation.random("changes")
        network = world.simulation.network

        def create_or_delete(name: str, number: int, image: ClusterImage) -> MetadataDecision[None]:
            known = image.topics.get(name)
            made: Change = TopicCreated(topic(name, number=number)) if known is None else TopicDeleted(known)
            return MetadataDecision((made,), ())

        async def work(metadata: ClusterMetadata, base: int) -> None:
            for number in range(20):
                await metadata.change(partial(create_or_delete, f"t{chance.randrange(4)}", base + number))

        async def disturb() -> None:
            while True:
                await asyncio.sleep(chance.random() * 0.2)
                network.reset(chance.choice(names), chance.choice(SERVERS))

        disturbing = asyncio.ensure_future(disturb())
        await asyncio.gather(*(work(each, 1000 * place) for place, each in enumerate(clusters, 1)))
        disturbing.cancel()
        image = await until_same(*clusters)
        again = await ClusterMetadata.load(await world.store("fresh"), new_cluster_id=lambda: "x")
        assert same(again.image, image)

    with_zookeeper(use, seed=seed)
