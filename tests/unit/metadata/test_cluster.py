"""The image and the store: what was decided is committed before it is seen, and both say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import DecodeError, StorageError
from semel.metadata import paths
from semel.metadata.cluster import ClusterMetadata
from semel.metadata.controller import MetadataDecision, NewTopic, TopicPolicy, TopicResult, create_topics
from semel.metadata.embedded import EmbeddedStore
from semel.metadata.image import (
    Broker,
    BrokerConfigsAltered,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClientMetricsAltered,
    ClusterImage,
    Endpoint,
    GroupConfigsAltered,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from semel.testing.virtual.disk_faults import DiskFault, Operation
from tests.unit.metadata.stores import PATH, new_disk, with_store

HERE = Broker(1, "localhost", 9092, "rack")
STATE = PartitionState(leader=1, leader_epoch=4, replicas=(1, 2), isr=(1,), partition_epoch=5)


def topic(name: str = "orders", *, number: int = 1, partitions: int = 1, **configs: str) -> Topic:
    return Topic(name, UUID(int=number), (STATE,) * partitions, configs)


def decided(*changes: Change) -> MetadataDecision[object]:
    return MetadataDecision(changes, ())


async def load(store: EmbeddedStore) -> ClusterMetadata:
    return await ClusterMetadata.load(store, new_cluster_id=lambda: "cluster-1")


def contents(image: ClusterImage) -> tuple[object, ...]:
    configs = (image.broker_configs, image.group_configs, image.client_metrics)
    return (image.cluster_id, image.topics, image.topics_by_id, *configs, image.partition_count)


def test_a_cluster_keeps_its_first_id() -> None:
    disk = new_disk()

    async def first(store: EmbeddedStore) -> str:
        return (await ClusterMetadata.load(store, new_cluster_id=lambda: "first")).image.cluster_id

    async def second(store: EmbeddedStore) -> str:
        return (await ClusterMetadata.load(store, new_cluster_id=lambda: "second")).image.cluster_id

    assert (with_store(first, disk), with_store(second, disk)) == ("first", "first")


def test_what_was_changed_is_there_after_a_restart_except_the_brokers() -> None:
    disk = new_disk()

    async def change(store: EmbeddedStore) -> ClusterImage:
        cluster = await load(store)
        await cluster.change(
            lambda _: decided(BrokerRegistered(HERE), TopicCreated(topic()), TopicCreated(topic("b", number=2)))
        )
        await cluster.change(lambda image: decided(TopicAltered(topic(partitions=3, **{"retention.ms": "5"}))))
        await cluster.change(lambda image: decided(TopicDeleted(image.topics["b"])))
        await cluster.change(
            lambda _: decided(BrokerConfigsAltered(None, {"a": "b"}), BrokerConfigsAltered(1, {"c": "d"}))
        )
        await cluster.change(lambda _: decided(BrokerConfigsAltered(1, {})))
        await cluster.change(
            lambda _: decided(
                GroupConfigsAltered("a/b ..", {"e": "f"}),
                GroupConfigsAltered("gone", {"e": "f"}),
                ClientMetricsAltered("..", {"interval.ms": "100"}),
            )
        )
        await cluster.change(lambda _: decided(GroupConfigsAltered("gone", {})))
        registered = await store.get("/brokers/1")
        assert registered is not None
        assert cluster.image.brokers == {1: replace(HERE, epoch=registered.version)}
        again = await load(store)
        assert again.image.brokers == cluster.image.brokers
        await cluster.change(lambda _: decided(BrokerUnregistered(1)))
        return cluster.image

    async def reload(store: EmbeddedStore) -> ClusterImage:
        return (await load(store)).image

    left = with_store(change, disk)
    assert left.topics == {"orders": topic(partitions=3, **{"retention.ms": "5"})}
    assert left.broker_configs == {None: {"a": "b"}, 1: {}}
    assert left.group_configs == {"a/b ..": {"e": "f"}}
    assert left.client_metrics == {"..": {"interval.ms": "100"}}
    disk.crash()
    assert contents(with_store(reload, disk)) == contents(left)


def test_an_image_is_replaced_only_after_the_commit_and_watches_see_both() -> None:
    async def use(store: EmbeddedStore) -> None:
        cluster = await load(store)
        before = cluster.image
        seen: list[tuple[ClusterImage, ClusterImage, Sequence[Change]]] = []
        stop = cluster.watch(lambda *images: seen.append(images))
        changing = asyncio.ensure_future(cluster.change(lambda _: decided(TopicCreated(topic()))))
        while await store.get("/topics/orders") is None:
            assert cluster.image is before
            await asyncio.sleep(0.0001)
        await changing
        assert seen == [(before, cluster.image, (TopicCreated(topic()),))]
        stop()
        await cluster.change(lambda _: decided(TopicDeleted(topic())))
        assert len(seen) == 1

    with_store(use)


def test_changes_that_arrive_together_are_decided_one_after_the_other() -> None:
    async def use(store: EmbeddedStore) -> None:
        cluster = await load(store)
        await cluster.change(lambda _: decided(BrokerRegistered(HERE)))

        def create(image: ClusterImage) -> MetadataDecision[TopicResult]:
            ids = iter([UUID(int=len(image.topics) + 1)])
            return create_topics(image, [NewTopic("orders")], policy=TopicPolicy(), new_id=lambda: next(ids))

        decisions = await asyncio.gather(*(cluster.change(create) for _ in range(5)))
        assert [decision.results[0].refusal is None for decision in decisions] == [True] + [False] * 4
        assert list(cluster.image.topics) == ["orders"]

    with_store(use)


def test_two_topics_that_may_not_both_be_are_not_both_created_though_they_come_together() -> None:
    async def use(store: EmbeddedStore) -> None:
        cluster = await load(store)
        await cluster.change(lambda _: decided(BrokerRegistered(HERE)))

        def create(name: str, number: int) -> Callable[[ClusterImage], MetadataDecision[TopicResult]]:
            return lambda image: create_topics(
                image, [NewTopic(name)], policy=TopicPolicy(), new_id=lambda: UUID(int=number)
            )

        await asyncio.gather(cluster.change(create("a.b", 1)), cluster.change(create("a_b", 2)))
        assert list(cluster.image.topics) == ["a.b"]

    with_store(use)


def test_a_decision_without_changes_touches_no_disk() -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> None:
        cluster = await load(store)
        syncs, image = disk.statistics.syncs, cluster.image
        assert await cluster.change(lambda _: MetadataDecision((), ("nothing",))) == MetadataDecision((), ("nothing",))
        assert (disk.statistics.syncs, cluster.image) == (syncs, image)

    with_store(use, disk)


def test_a_client_that_goes_away_does_not_part_the_image_from_the_store() -> None:
    async def use(store: EmbeddedStore) -> None:
        cluster = await load(store)
        changing = asyncio.ensure_future(cluster.change(lambda _: decided(TopicCreated(topic()))))
        await asyncio.sleep(0)
        changing.cancel()
        await cluster.close()
        assert list(cluster.image.topics) == await store.children("/topics") == ["orders"]

    with_store(use)


def test_when_another_process_was_faster_the_decision_is_taken_again() -> None:
    async def use(store: EmbeddedStore) -> None:
        ours, theirs = await load(store), await load(store)
        await theirs.change(lambda _: decided(TopicCreated(topic(number=7)), BrokerRegistered(HERE)))
        asked: list[list[str]] = []

        def decide(image: ClusterImage) -> MetadataDecision[object]:
            asked.append(list(image.topics))
            if "orders" in image.topics:
                return decided(TopicAltered(topic(number=7, partitions=2)))
            return decided(TopicCreated(topic(number=8)))

        await ours.change(decide)
        assert asked == [[], ["orders"]]
        assert ours.image.topics == {"orders": topic(number=7, partitions=2)}
        assert theirs.image.topics == {"orders": topic(number=7)}

    with_store(use)


def test_a_decision_before_which_others_always_come_fails_like_a_store_that_is_away() -> None:
    """Tasks such as elections try again after a StorageError, and would end with any other error."""

    async def use(store: EmbeddedStore) -> None:
        ours, theirs = await load(store), await load(store)
        await theirs.change(lambda _: decided(TopicCreated(topic(number=7))))
        asked = 0

        def decide(image: ClusterImage) -> MetadataDecision[object]:
            nonlocal asked
            asked += 1
            return decided(TopicCreated(topic(number=8)))

        with pytest.raises(StorageError, match="100 changes of others came first"):
            await ours.change(decide)
        assert (asked, ours.image.topics) == (100, {"orders": topic(number=7)})

    with_store(use)


def test_a_change_that_the_disk_refused_is_not_seen() -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> None:
        cluster = await load(store)
        disk.fail(DiskFault(Operation.SYNC, PATH))
        with pytest.raises(StorageError):
            await cluster.change(lambda _: decided(TopicCreated(topic())))
        assert cluster.image.topics == {}

    with_store(use, disk)


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"id":"x","partitions":[],"configs":{}}', b"\xff"])
def test_a_topic_that_cannot_be_read_is_named(value: bytes) -> None:
    with pytest.raises(DecodeError, match="/topics/orders"):
        paths.decode_topic("orders", value)


node_ids = st.integers(0, 2**31 - 1)
states = st.builds(
    PartitionState,
    leader=st.none() | node_ids,
    leader_epoch=st.integers(0, 99),
    replicas=st.lists(node_ids, min_size=1, unique=True).map(tuple),
    isr=st.lists(node_ids, unique=True).map(tuple),
    partition_epoch=st.integers(0, 99),
)


@given(
    st.builds(
        Topic,
        name=st.just("orders"),
        id=st.uuids(),
        partitions=st.lists(states, min_size=1, max_size=3).map(tuple),
        configs=st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
    )
)
def test_every_topic_survives_being_written_and_read(written: Topic) -> None:
    assert paths.decode_topic("orders", paths.encode_topic(written)) == written


ports = st.integers(1, 65535)


@given(
    st.builds(
        Broker,
        node_ids,
        st.text(max_size=9),
        ports,
        st.none() | st.text(max_size=3),
        epoch=st.just(17),
        inter_broker=st.none() | st.builds(Endpoint, st.text(max_size=9), ports),
        directory_id=st.none() | st.text(max_size=5),
    )
)
def test_every_broker_survives_being_written_and_read(written: Broker) -> None:
    assert paths.decode_broker(written.node_id, paths.encode_broker(written), 17) == written
